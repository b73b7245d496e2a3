// A program that knows nothing of tjit: it fits a line to noisy points by
// gradient descent and prints slope and intercept.
//
//   build/release/bin/unmodified                      as it is
//   build/release/bin/tjit run -- build/release/bin/unmodified
//
// prints the same, bit for bit. `tjit run --stats=-` adds what was done.
// Tested by: tests/acceptance/examples_test.py
#include <torch/torch.h>

#include <cstdio>

int main() {
  torch::manual_seed(1);
  const torch::Tensor x = torch::linspace(-1, 1, 256).unsqueeze(1);
  const torch::Tensor y = 3 * x + 0.5 + 0.1 * torch::randn_like(x);
  torch::nn::Linear line(1, 1);
  torch::optim::SGD sgd(line->parameters(), /*lr=*/0.1);
  float sum = 0;  // of the last hundred losses
  for (int step = 1; step <= 500; ++step) {
    sgd.zero_grad();
    const torch::Tensor loss = torch::mse_loss(line->forward(x), y);
    loss.backward();
    sgd.step();
    sum += loss.item<float>();
    if (step % 100 != 0) continue;
    std::printf("step %d: mean loss %a\n", step, sum / 100);
    sum = 0;
  }
  std::printf("slope %a, intercept %a\n", line->weight.item<float>(),
              line->bias.item<float>());
}

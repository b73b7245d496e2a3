// A training loop of one's own with tjit in it: switch it on, say where a step
// ends, ask what it did. embed [STEPS]
// Tested by: tests/acceptance/examples_test.py
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

namespace nn = torch::nn;

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 500;
  torch::manual_seed(1);
  const torch::Tensor x = torch::randn({64, 16}), y = torch::randn({64, 4});
  nn::Sequential net(nn::Linear(16, 32), nn::ReLU(), nn::Linear(32, 4));
  torch::optim::Adam adam(net->parameters(), 1e-3);

  // A sequence of ops is deferred once it was seen five times. The environment
  // wins: TJIT_AUTO_COMPILE=0 alone does not switch this off, tjit::disable()
  // would.
  tjit::enable({.hot_threshold = 5});
  torch::Tensor loss;
  for (int step = 0; step < steps; ++step) {
    adam.zero_grad();
    loss = torch::mse_loss(net->forward(x), y);
    loss.backward();
    adam.step();
    tjit::mark_step();  // optional: a hint where the loop begins again
  }
  std::printf("loss %a\n", loss.item<float>());

  const tjit::Stats did = tjit::stats();
  std::printf("%lld of %lld ops were replayed\n",
              static_cast<long long>(did.ops_replayed),
              static_cast<long long>(did.ops_seen));
  // Every sequence and why it is compiled or not.
  std::fputs(tjit::explain().c_str(), stdout);
}

// A program that knows nothing of tjit, for preload_test.py: steps of SGD on
// a small regression. It prints the loss of each tenth step and, in hex, the
// last weights.
#include <ATen/ATen.h>

#include <cstdio>

int main() {
  at::manual_seed(1);
  const at::Tensor x = at::randn({32, 8}), y = at::randn({32, 1});
  at::Tensor w = at::zeros({8, 1}).requires_grad_();
  for (int step = 1; step <= 1000; ++step) {
    const at::Tensor loss = at::mse_loss(at::mm(x, w), y);
    loss.backward();
    {
      const at::NoGradGuard no_grad;
      w.add_(w.grad(), -0.125);
    }
    w.mutable_grad().reset();
    if (step % 10 == 0) std::printf("%a\n", loss.item<float>());
  }
  for (int i = 0; i < 8; ++i) std::printf("%a\n", w[i][0].item<float>());
  return 7;
}

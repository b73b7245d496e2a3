// The program of a reader of README.md, for blocks_test.py: knows nothing of
// tjit, and runs for long enough that what is hot in it gets compiled.
#include <ATen/ATen.h>

#include <chrono>
#include <cstdio>

int main() {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(2);
  at::manual_seed(1);
  const at::Tensor weights = at::randn({64, 64}) / 8;
  at::Tensor x = at::randn({32, 64});
  for (int step = 0; step < 2000 || Clock::now() < end; ++step) {
    const at::Tensor y = (at::mm(x, weights) * 0.9).tanh();
    x = (x + y).clamp(-2, 2) * 0.5;
    if (x.sum().item<float>() != x.sum().item<float>()) return 1;
  }
  std::puts("done");
}

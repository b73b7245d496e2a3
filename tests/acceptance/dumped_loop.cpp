// One step of a small network over and over, each from the same numbers, for
// dump_test.py. Prints the bits that the last step gave; status 7. With the
// argument "tier2" it goes on until tier 2 has run and its plan is dumped, at
// most a minute. With "convolutions" behind it the network is of those.
#include <ATen/ATen.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "tjit/tjit.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Net {
  at::Tensor x = at::randn({32, 8}), y = at::randn({32, 16});
  at::Tensor start = at::randn({8, 16}), w = at::empty({8, 16});

  double Step() {
    w.copy_(start);
    const at::Tensor hidden = at::relu(at::mm(x, w));
    const at::Tensor error = at::mul(at::sub(hidden, y), 2);
    const at::Tensor back = at::mul(error, at::gt(hidden, 0));
    w.sub_(at::mm(x.t(), back), 1e-3);
    return at::mean(at::mul(error, error)).item<double>();
  }
};

// Their kernels allocate what tjit learns to plan.
struct ConvolutionNet {
  at::Tensor x = at::randn({2, 1, 32, 32}), w = at::randn({16, 1, 3, 3});
  at::Tensor wide = at::randn({16, 16, 3, 3}) * 0.1;

  double Step() {
    const at::Tensor y = at::relu(at::conv2d(x, w, {}, 1, 1)) * 0.5;
    const at::Tensor z = at::tanh(at::conv2d(y, wide, {}, 1, 1) + y) - 1;
    return at::mean(z * z).item<double>();
  }
};

template <class N>
int Train(bool waits) {
  at::manual_seed(1);
  N net;
  double loss = 0;
  const auto end = Clock::now() + std::chrono::minutes(1);
  for (int step = 0; step < 200; ++step) loss = net.Step();
  while (waits && Clock::now() < end && tjit::stats().replays_tier2 == 0) {
    loss = net.Step();
  }
  unsigned long hash = 14695981039346656037ul;
  const auto* bytes = static_cast<const unsigned char*>(net.w.data_ptr());
  for (std::size_t i = 0; i < net.w.nbytes(); ++i) {
    hash = (hash ^ bytes[i]) * 1099511628211ul;
  }
  std::printf("%a %lx\n", loss, hash);
  return 7;
}

}  // namespace

int main(int argc, char** argv) {
  const bool waits = argc > 1 && std::string_view(argv[1]) == "tier2";
  return argc > 2 ? Train<ConvolutionNet>(waits) : Train<Net>(waits);
}

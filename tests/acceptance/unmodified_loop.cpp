// A small network trained by hand, in a program that knows nothing of tjit,
// for run_test.py. Prints the bits of what it computed; status 7.
//
// Compiled twice: as a program that links libtorch, and with
// UNMODIFIED_LOOP_LIBRARY as a library that late_loader.cpp loads.
#include <ATen/ATen.h>

#include <cstdio>
#include <cstring>

namespace {

// FNV-1a over the bytes.
unsigned long Hash(const at::Tensor& t, unsigned long hash) {
  const auto* bytes = static_cast<const unsigned char*>(t.data_ptr());
  for (std::size_t i = 0; i < t.nbytes(); ++i) {
    hash = (hash ^ bytes[i]) * 1099511628211ul;
  }
  return hash;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int RunUnmodifiedLoop() {
  at::manual_seed(1);
  const at::Tensor x = at::randn({32, 8}), y = at::randn({32, 2});
  at::Tensor w1 = at::randn({8, 16}), w2 = at::randn({16, 2});
  double loss = 0;
  for (int step = 0; step < 300; ++step) {
    const at::Tensor hidden = at::relu(at::mm(x, w1));
    const at::Tensor error = at::sub(at::mm(hidden, w2), y);
    loss = at::mean(at::mul(error, error)).item<double>();
    const at::Tensor back = at::mm(error, w2.t());
    const at::Tensor g2 = at::mm(hidden.t(), error);
    const at::Tensor g1 = at::mm(x.t(), at::mul(back, at::gt(hidden, 0)));
    w1.sub_(g1, 1e-3);
    w2.sub_(g2, 1e-3);
  }
  std::printf("%a %lx\n", loss, Hash(w2, Hash(w1, 14695981039346656037ul)));
  std::fflush(stdout);
  return 7;
}

#ifndef UNMODIFIED_LOOP_LIBRARY
int main() { return RunUnmodifiedLoop(); }
#endif

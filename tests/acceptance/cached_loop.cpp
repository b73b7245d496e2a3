// Three loops whose ops become machine code, for cache_test.py: pointwise ops
// around a product, a state that is changed in place, math functions. Prints
// the bits of what it computed. Waits for the compiler after each step, so
// that every process compiles the same.
#include <ATen/ATen.h>
#include <tjit/tjit.h>

#include <cstdio>

#include "runtime/testing.h"

namespace {

constexpr int kSteps = 60;

// FNV-1a over the bytes.
unsigned long Hash(const at::Tensor& t, unsigned long hash) {
  const auto* bytes = static_cast<const unsigned char*>(t.const_data_ptr());
  for (std::size_t i = 0; i < t.nbytes(); ++i) {
    hash = (hash ^ bytes[i]) * 1099511628211ul;
  }
  return hash;
}

template <class Step>
unsigned long Run(unsigned long hash, const Step& step) {
  for (int i = 0; i < kSteps; ++i) {
    const at::Tensor result = step();
    tjit::mark_step();
    tjit::testing::WaitForCompiler();
    hash = Hash(result, hash);
  }
  return hash;
}

unsigned long Product(unsigned long hash) {
  const at::Tensor x = at::randn({40, 40}), w = at::randn({40, 40});
  return Run(hash, [&] {
    at::Tensor a = at::add(x, w);
    at::Tensor b = at::mul(a, at::mm(x, w));
    b.sub_(x);
    return at::mul(at::add(b, a), w);
  });
}

unsigned long Momentum(unsigned long hash) {
  const at::Tensor state = at::full({3000}, 1.0);
  const at::Tensor velocity = at::full({3000}, 0.5);
  return Run(hash, [&] {
    velocity.mul_(0.75);
    velocity.add_(at::mul(state, state), -0.125);
    state.add_(velocity, 0.25);
    return at::add(state, velocity);
  });
}

unsigned long Functions(unsigned long hash) {
  const at::Tensor x = at::randn({37, 19}), row = at::randn({19});
  const at::Tensor d = at::randn({37, 19}, at::kDouble);
  return Run(hash, [&] {
    at::Tensor a = at::tanh(at::add(x, row));
    a = at::mul(at::exp(at::mul(a, x)), at::gt(x, 0));
    return at::log(at::add(at::abs(at::mul(d, a)), 1));
  });
}

}  // namespace

int main() {
  at::manual_seed(1);
  std::printf("%lx\n", Functions(Momentum(Product(14695981039346656037ul))));
}

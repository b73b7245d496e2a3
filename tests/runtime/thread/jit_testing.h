// What the tests of tjit::jit() share.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <tjit/jit.h>
#include <tjit/tjit.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "runtime/testing.h"

namespace tjit {

using Tensors = std::vector<at::Tensor>;

inline bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  sync();  // an untyped pointer is no sync point
  return x.sizes() == y.sizes() && x.dtype() == y.dtype() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// Of the default generator.
inline at::Tensor GeneratorState() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

class JitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(1);
    ASSERT_TRUE(enable());
  }
  void TearDown() override {
    disable();
    clear();
  }
  const at::NoGradGuard no_grad_;
};

// Calls f and the wrapped f with the same arguments.
template <class F, class... Args>
void ExpectSame(Jit<F>& fast, const F& f, const Args&... args) {
  const auto a = fast(args...);
  const auto b = f(args...);
  EXPECT_TRUE(SameBits(a, b));
}

// What a call returns under the defect, once the function is replayed.
inline Tensors UnderDefect(const char* defect,
                           const std::function<Tensors()>& calls) {
  EXPECT_TRUE(testing::SetPlantedDefect(defect)) << defect;
  const Tensors results = calls();
  sync();
  testing::SetPlantedDefect("");
  return results;
}

// What a random function is made of: it does the same in each call, over a pool
// of tensors that grows, and may write into one of its own.
class RandomFunction {
 public:
  const at::Tensor& state() const { return state_; }

 protected:
  RandomFunction(std::uint32_t seed, at::IntArrayRef sizes)
      : seed_(seed), state_(at::zeros(sizes)) {}

  void Begin(const at::Tensor& x, const at::Tensor& w) {
    random_.seed(seed_);
    pool_ = {x, w};
  }
  Tensors Results() {
    const Tensors pool = std::move(pool_);  // nothing lives on
    return {pool.back(), pool[pool.size() / 2], state_.sum()};
  }
  std::uint32_t Below(std::uint32_t end) {
    return static_cast<std::uint32_t>(random_()) % end;
  }
  at::Tensor One() {
    return pool_[Below(static_cast<std::uint32_t>(pool_.size()))];
  }

  const std::uint32_t seed_;
  at::Tensor state_;
  std::mt19937 random_;
  Tensors pool_;
};

}  // namespace tjit

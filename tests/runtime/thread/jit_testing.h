// What the tests of tjit::jit() share.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <tjit/jit.h>
#include <tjit/tjit.h>

#include <cstring>
#include <functional>
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

}  // namespace tjit

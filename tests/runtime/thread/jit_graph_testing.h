// What the tests of functions share whose results keep a graph for gradients.
#pragma once

#include "tests/runtime/thread/jit_testing.h"

namespace tjit {

inline JitOptions WithGradients() {
  JitOptions options;
  options.gradients = true;
  options.verify_every = 0;
  return options;
}

class JitGraphTest : public JitTest {
 protected:
  const at::AutoGradMode grad_{true};
};

inline at::Tensor Leaf(at::IntArrayRef sizes) {
  return at::randn(sizes).requires_grad_(true);
}

inline void ExpectAllSame(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(SameBits(a[i], b[i])) << i;
  }
}

}  // namespace tjit

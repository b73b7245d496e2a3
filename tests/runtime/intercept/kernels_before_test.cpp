// Views of which another library has kernels from before tjit looked at the
// ops.
#include <gtest/gtest.h>
#include <tjit/tjit.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/testing.h"

namespace tjit {
namespace {

int transposed = 0;
at::Tensor OwnTranspose(c10::DispatchKeySet keys, const at::Tensor& x,
                        std::int64_t a, std::int64_t b) {
  ++transposed;
  return at::_ops::transpose_int::redispatch(
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER,
                                 c10::DispatchKey::BackendSelect),
      x, a, b);
}
TORCH_LIBRARY_IMPL(aten, BackendSelect, library) {
  library.impl("transpose.int", &OwnTranspose);
}

// For all backends, before the one that libtorch registered for all of them.
int permuted = 0;
at::Tensor OwnPermute(const at::Tensor& x, at::IntArrayRef) {
  ++permuted;
  return x.transpose(0, 1);
}
TORCH_LIBRARY_IMPL(aten, CompositeExplicitAutogradNonFunctional, library) {
  library.impl("permute", &OwnPermute);
}

TEST(KernelsBeforeTest, AreNotGoneAround) {
  ASSERT_TRUE(enable());
  const at::Tensor x = torch::ones({4, 4});
  const at::Tensor y = x + x;  // the thread takes part from its first op on
  std::vector<std::string> closed = testing::ClosedDirectCalls();
  EXPECT_EQ(closed, (std::vector<std::string>{"aten::permute", "aten::t",
                                              "aten::transpose.int"}));
  const std::uint64_t before = testing::DirectViewsMade();
  x.t();
  x.transpose(0, 1);
  EXPECT_EQ(transposed, 2);
  x.permute({1, 0});
  EXPECT_EQ(permuted, 1);
  EXPECT_EQ(transposed, 3);
  EXPECT_EQ(testing::DirectViewsMade(), before);
  x.select(0, 1);
  x.view({16});
  EXPECT_EQ(testing::DirectViewsMade(), before + 2);
  disable();
}

}  // namespace
}  // namespace tjit

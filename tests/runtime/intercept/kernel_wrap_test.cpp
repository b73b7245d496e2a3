// What is wrapped, and how.
#include "runtime/intercept/kernel_wrap.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tjit::runtime {
namespace {

// Ops of aten with a kernel at the CPU key whose derivative is that of the ops
// that they are made of.
std::vector<std::string> DerivedWithKernel() {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  std::vector<std::string> names;
  for (const c10::OperatorName& name :
       dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::CPU)) {
    const auto op = dispatcher.findOp(name);
    if (op && name.getNamespace() == "aten" &&
        op->hasKernelForDispatchKey(
            c10::DispatchKey::CompositeImplicitAutograd)) {
      names.push_back(c10::toString(name));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class KernelWrap : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    derived_before_ = DerivedWithKernel();
    WrapKernels();
  }
  static inline std::vector<std::string> derived_before_;
};

TEST_F(KernelWrap, EveryListedOpGetsItsTypedWrapper) {
  const WrapCounts counts = CountWrapped();
  EXPECT_EQ(counts.typed, counts.listed)
      << "an op of typed_ops.def has no CPU kernel, or is a view";
  EXPECT_GT(counts.typed, 8 * counts.boxed);
}

TEST_F(KernelWrap, OpsThatProgramsCallAreTyped) {
  for (const char* name :
       {"aten::add.Tensor", "aten::empty.memory_format", "aten::fmax",
        "aten::floor_divide_.Tensor", "aten::logaddexp", "aten::index_copy_",
        "aten::reflection_pad2d_backward.grad_input", "aten::bucketize.Tensor",
        "aten::upsample_bicubic2d", "aten::_embedding_bag",
        "aten::linalg_inv_ex", "aten::_fft_r2c", "aten::sigmoid.out"}) {
    const OpEntry* entry = FindEntry(name);
    ASSERT_NE(entry, nullptr) << name;
    EXPECT_TRUE(entry->typed) << name;
  }
}

TEST_F(KernelWrap, OthersAreBoxedAndViewsAreLeftAlone) {
  // Returns an int64_t, which no typed wrapper does.
  const OpEntry* boxed = FindEntry("aten::_fused_sdp_choice");
  ASSERT_NE(boxed, nullptr);
  EXPECT_FALSE(boxed->typed);
  EXPECT_EQ(FindEntry("aten::view"), nullptr);
  EXPECT_EQ(FindEntry("aten::as_strided"), nullptr);
}

// What is made of differentiable ops has no derivative of its own: with a kernel
// of ours at the CPU key it would have none at all.
TEST_F(KernelWrap, CompositesOfDifferentiableOpsGetNoKernel) {
  EXPECT_EQ(DerivedWithKernel(), derived_before_);
}

TEST_F(KernelWrap, ArgumentKindsFollowTheSchema) {
  // add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)
  const OpEntry* add = FindEntry("aten::add.Tensor");
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(add->argument_kinds,
            (std::vector<ArgumentKind>{ArgumentKind::kTensor,
                                       ArgumentKind::kTensor,
                                       ArgumentKind::kScalar}));
  // clamp(Tensor self, Scalar? min=None, Scalar? max=None)
  const OpEntry* clamp = FindEntry("aten::clamp");
  ASSERT_NE(clamp, nullptr);
  EXPECT_EQ(clamp->argument_kinds[1], ArgumentKind::kScalar);
  // cat(Tensor[] tensors, int dim=0)
  const OpEntry* cat = FindEntry("aten::cat");
  ASSERT_NE(cat, nullptr);
  EXPECT_EQ(cat->argument_kinds[0], ArgumentKind::kOther);
}

}  // namespace
}  // namespace tjit::runtime

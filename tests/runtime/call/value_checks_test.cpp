// Each check against what eager does with the same values: where eager throws
// ValuesPass() is false, and it is true for what programs do.
#include "runtime/call/value_checks.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "runtime/call/op_classes.h"
#include "runtime/memory/block.h"

namespace tjit::runtime {

bool TakeOverDeadBlock(Block*) { return false; }

namespace {

class ValueChecksTest : public testing::Test {
 protected:
  ValueChecksTest() { InstallAllocator(); }

  // The frame of a call; `tensors` by schema argument.
  static bool Passes(const std::string& name,
                     const std::vector<std::pair<int, at::Tensor>>& tensors,
                     const std::vector<std::int64_t>& statics = {},
                     const std::vector<double>& scalars = {}) {
    const std::size_t dot = name.find('.');
    OpEntry entry(c10::Dispatcher::singleton().findSchemaOrThrow(
        name.substr(0, dot).c_str(),
        dot == std::string::npos ? "" : name.substr(dot + 1).c_str()));
    entry.value_check = TraitsOf(entry.handle).value_check;
    entry.writes.assign(entry.handle.schema().arguments().size(), false);
    CallFrame frame(entry, c10::DispatchKeySet());
    for (const auto& [arg, tensor] : tensors) {
      frame.AddTensor(tensor, static_cast<std::uint32_t>(arg));
    }
    for (std::int64_t s : statics) {
      frame.AddStatic(static_cast<std::uint64_t>(s));
    }
    for (double s : scalars) frame.AddDouble(s);
    return ValuesPass(frame);
  }
};

at::Tensor Ints(const std::vector<std::int64_t>& values) {
  return at::tensor(values, c10::kLong);
}

TEST_F(ValueChecksTest, OpsThatNeverThrow) {
  EXPECT_TRUE(Passes("aten::add.Tensor", {{0, at::ones({2})}}));
  EXPECT_FALSE(Passes("aten::histc", {{0, at::ones({2})}}));
}

TEST_F(ValueChecksTest, IndexOfADim) {
  const at::Tensor x = at::ones({3, 5});
  const auto passes = [&](std::vector<std::int64_t> index, std::int64_t dim) {
    return Passes("aten::index_select", {{0, x}, {2, Ints(index)}}, {dim});
  };
  EXPECT_TRUE(passes({0, 4}, 1));
  EXPECT_TRUE(passes({0, 4}, -1));
  EXPECT_TRUE(passes({}, 0));
  EXPECT_FALSE(passes({0, 4}, 0));
  EXPECT_THROW(at::index_select(x, 0, Ints({0, 4})), c10::Error);
  EXPECT_FALSE(passes({-1}, 0));
  EXPECT_THROW(at::index_select(x, 0, Ints({-1})), c10::Error);
  EXPECT_FALSE(passes({0}, 7));
  EXPECT_TRUE(Passes("aten::gather",
                     {{0, x}, {2, Ints({2, 2}).expand({1, 2}).t()}}, {0, 0}));
  EXPECT_FALSE(Passes("aten::scatter_add",
                      {{0, x}, {2, Ints({3}).expand({2, 1})}}, {0}));
}

// Of (tensor, dims, correction, keepdim).
TEST_F(ValueChecksTest, VariancesOfTooFewNumbers) {
  const at::Tensor x = at::ones({3, 1, 5});
  const auto passes = [&](std::vector<std::int64_t> dims) {
    std::vector<std::int64_t> statics = {
        1, static_cast<std::int64_t>(dims.size())};
    statics.insert(statics.end(), dims.begin(), dims.end());
    statics.push_back(0);
    return Passes("aten::var.correction", {{0, x}}, statics, {1.0});
  };
  EXPECT_TRUE(passes({0}));
  EXPECT_TRUE(passes({}));
  EXPECT_TRUE(passes({1, -1}));
  EXPECT_FALSE(passes({1}));
  EXPECT_FALSE(passes({7}));
  EXPECT_TRUE(Passes("aten::std_mean.correction", {{0, x}}, {0, 0}, {14}));
  EXPECT_FALSE(Passes("aten::std_mean.correction", {{0, x}}, {0, 0}, {15}));
}

TEST_F(ValueChecksTest, LossesThatReduceIntoATensor) {
  const at::Tensor x = at::ones({3});
  for (const std::string op :
       {"mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss"}) {
    const std::string out = "aten::" + op + ".out";
    EXPECT_TRUE(Passes(out, {{0, x}, {1, x}}, {0})) << op;
    EXPECT_FALSE(Passes(out, {{0, x}, {1, x}}, {1})) << op;
    EXPECT_TRUE(Passes("aten::" + op, {{0, x}, {1, x}}, {1})) << op;
  }
}

TEST_F(ValueChecksTest, GradientsOfLossesOfOtherSizes) {
  const at::Tensor g = at::ones({}), x = at::ones({2, 3});
  const at::Tensor row = at::ones({3});
  for (const char* op : {"aten::mse_loss_backward", "aten::huber_loss_backward",
                         "aten::smooth_l1_loss_backward",
                         "aten::binary_cross_entropy_backward"}) {
    EXPECT_TRUE(Passes(op, {{0, g}, {1, x}, {2, x}}, {1})) << op;
    EXPECT_TRUE(Passes(op, {{0, row}, {1, x}, {2, x}}, {1})) << op;
    EXPECT_FALSE(Passes(op, {{0, g}, {1, row}, {2, x}}, {1})) << op;
    EXPECT_FALSE(Passes(op, {{0, x}, {1, row}, {2, row}}, {1})) << op;
  }
}

TEST_F(ValueChecksTest, PreluOfMoreWeights) {
  const at::Tensor x = at::ones({2, 3}), row = at::ones({1, 3});
  const at::Tensor planes = at::ones({1, 2, 3});
  EXPECT_TRUE(Passes("aten::_prelu_kernel", {{0, x}, {1, x}}));
  EXPECT_TRUE(Passes("aten::_prelu_kernel", {{0, x}, {1, row}}));
  EXPECT_FALSE(Passes("aten::_prelu_kernel", {{0, row}, {1, x}}));
  EXPECT_FALSE(Passes("aten::_prelu_kernel", {{0, x}, {1, planes}}));
}

TEST_F(ValueChecksTest, HuberLossOfOtherSizes) {
  const at::Tensor x = at::ones({2, 3});
  const at::Tensor row = at::ones({3});
  EXPECT_TRUE(Passes("aten::huber_loss", {{0, x}, {1, x}}, {1}));
  EXPECT_FALSE(Passes("aten::huber_loss", {{0, row}, {1, x}}, {1}));
}

TEST_F(ValueChecksTest, ListsOfIndices) {
  const at::Tensor x = at::ones({3, 5});
  const char* index = "aten::index.Tensor";
  EXPECT_TRUE(Passes(index, {{0, x}, {1, Ints({-3, 2})}}, {1}));
  EXPECT_FALSE(Passes(index, {{0, x}, {1, Ints({3})}}, {1}));
  EXPECT_THROW(at::index(x, {Ints({3})}), c10::Error);
  EXPECT_TRUE(
      Passes(index, {{0, x}, {1, at::Tensor()}, {1, Ints({-5, 4})}}, {2}));
  EXPECT_FALSE(Passes(index, {{0, x}, {1, Ints({2})}, {1, Ints({5})}}, {2}));
  // Masks decide the shape.
  EXPECT_FALSE(Passes(index, {{0, x}, {1, at::ones({3}, c10::kBool)}}, {1}));
  EXPECT_FALSE(Passes(index, {{0, x}, {1, at::ones({3}, c10::kByte)}}, {1}));
  EXPECT_TRUE(Passes("aten::_index_put_impl_",
                     {{0, x}, {1, Ints({0})}, {2, at::ones({})}}, {1}));
}

TEST_F(ValueChecksTest, FlatIndices) {
  const at::Tensor x = at::ones({3, 5});
  EXPECT_TRUE(Passes("aten::take", {{0, x}, {1, Ints({-15, 14})}}));
  EXPECT_FALSE(Passes("aten::take", {{0, x}, {1, Ints({15})}}));
  EXPECT_THROW(at::take(x, Ints({15})), c10::Error);
}

TEST_F(ValueChecksTest, Targets) {
  const at::Tensor x = at::zeros({2, 3});
  const auto passes = [&](std::vector<std::int64_t> target) {
    return Passes("aten::nll_loss_forward", {{0, x}, {1, Ints(target)}},
                  {1, -100});
  };
  EXPECT_TRUE(passes({0, 2}));
  EXPECT_FALSE(passes({0, 3}));
  EXPECT_THROW(at::nll_loss(x, Ints({0, 3})), c10::Error);
  EXPECT_TRUE(passes({0, -100}));  // the class to ignore
  EXPECT_FALSE(passes({0, -99}));
  EXPECT_THROW(at::nll_loss(x, Ints({0, -99})), c10::Error);
  EXPECT_FALSE(Passes("aten::nll_loss_forward",
                      {{0, at::zeros({2, 0})}, {1, Ints({0, 0})}}, {1, -100}));
  EXPECT_TRUE(Passes("aten::nll_loss_backward",
                     {{0, at::ones({})}, {1, x}, {2, Ints({0, 2})}}));
  EXPECT_FALSE(Passes("aten::nll_loss_backward",
                      {{0, at::ones({})}, {1, x}, {2, Ints({0, 3})}}));
  EXPECT_TRUE(Passes("aten::nll_loss_backward",
                     {{0, at::ones({})}, {1, x}, {2, Ints({0, 7})}}, {1, 7}));
  EXPECT_TRUE(Passes("aten::nll_loss2d_forward",
                     {{0, at::zeros({1, 3, 1, 2})}, {1, Ints({0, 2})}}));
}

TEST_F(ValueChecksTest, DivisionByZeroNeedsIntegers) {
  EXPECT_TRUE(Passes("aten::remainder.Tensor",
                     {{0, at::ones({2})}, {1, at::zeros({2})}}));
  EXPECT_FALSE(Passes("aten::remainder.Tensor",
                      {{0, Ints({1})}, {1, Ints({0})}}));
  EXPECT_THROW(at::remainder(Ints({1}), Ints({0})), c10::Error);
}

TEST_F(ValueChecksTest, WhatIsPendingIsNotKnown) {
  const at::Tensor x = at::ones({3});
  const at::Tensor index = Ints({0});
  Block* block = BlockOf(index.storage().unsafeGetStorageImpl());
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(Passes("aten::take", {{0, x}, {1, index}}));
  block->pending = Block::kPendingWrite;
  EXPECT_FALSE(Passes("aten::take", {{0, x}, {1, index}}));
  block->pending = Block::kPendingRead;
  EXPECT_TRUE(Passes("aten::take", {{0, x}, {1, index}}));
  block->pending = 0;
}

// A look takes a third of what the op takes for an element.
TEST_F(ValueChecksTest, LongIndicesOfSingleElementsAreNotRead) {
  const at::Tensor x = at::ones({3});
  EXPECT_TRUE(
      Passes("aten::take", {{0, x}, {1, at::zeros({5000}, c10::kLong)}}));
  EXPECT_FALSE(
      Passes("aten::take", {{0, x}, {1, at::zeros({1 << 20}, c10::kLong)}}));
  // Of rows they are.
  EXPECT_TRUE(Passes(
      "aten::index_select",
      {{0, at::ones({3, 64})}, {2, at::zeros({1 << 20}, c10::kLong)}}, {0}));
}

// An index expanded over features, as message passing has it.
TEST_F(ValueChecksTest, ExpandedIndicesAreReadOnce) {
  const at::Tensor x = at::ones({800, 32}), index = at::zeros({20000}, c10::kLong);
  const at::Tensor wide = index.view({-1, 1}).expand({20000, 32});
  const auto passes = [&](const at::Tensor& i) {
    return Passes("aten::scatter_add_",
                  {{0, x}, {2, i}, {3, at::ones({20000, 32})}}, {0});
  };
  EXPECT_TRUE(passes(wide));
  EXPECT_FALSE(passes(wide.contiguous()));
  for (const std::int64_t bad : {800, -1}) {
    index[19999] = bad;
    EXPECT_FALSE(passes(wide));
    EXPECT_THROW(at::scatter_add(x, 0, wide, at::ones({20000, 32})), c10::Error);
  }
}

TEST_F(ValueChecksTest, TheFarthestIndices) {
  const at::Tensor x = at::ones({3, 5});
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min(),
                         kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t i : {kLeast, kLeast + 1, kLeast + 3, kMost, kMost - 1,
                               kMost - 15, std::int64_t{-16}, std::int64_t{15}}) {
    EXPECT_FALSE(Passes("aten::take", {{0, x}, {1, Ints({0, i, 1})}})) << i;
    EXPECT_FALSE(
        Passes("aten::take", {{0, x}, {1, Ints({0, i, 1, i}).slice(0, 1, 4, 2)}}))
        << i;
  }
  for (const std::int64_t i : {-15, -1, 0, 14}) {
    EXPECT_TRUE(Passes("aten::take", {{0, x}, {1, Ints({0, i, 1})}})) << i;
  }
  for (const int i : {std::numeric_limits<int>::min(), -1, 3,
                      std::numeric_limits<int>::max()}) {
    EXPECT_FALSE(Passes("aten::index_select",
                        {{0, x}, {2, at::tensor({0, i}, c10::kInt)}}, {0}))
        << i;
  }
}

// Not looked at again for each recorded step that a call may be.
TEST_F(ValueChecksTest, AVerdictIsKeptWithTheCall) {
  const at::Tensor x = at::ones({3});
  OpEntry entry(c10::Dispatcher::singleton().findSchemaOrThrow("aten::take", ""));
  entry.value_check = TraitsOf(entry.handle).value_check;
  entry.writes.assign(2, false);
  CallFrame frame(entry, c10::DispatchKeySet());
  const at::Tensor index = Ints({0});
  frame.AddTensor(x, 0);
  frame.AddTensor(index, 1);
  Block* block = BlockOf(index.storage().unsafeGetStorageImpl());
  block->pending = Block::kPendingWrite;
  EXPECT_EQ(LookAtValues(frame), ValueVerdict::kNotReady);
  block->pending = 0;
  EXPECT_EQ(LookAtValues(frame), ValueVerdict::kPass);
  index[0] = 7;
  EXPECT_EQ(LookAtValues(frame), ValueVerdict::kPass);
}

TEST_F(ValueChecksTest, OtherIndexTypes) {
  const at::Tensor x = at::ones({3});
  EXPECT_TRUE(Passes("aten::index_select",
                     {{0, x}, {2, Ints({2}).to(c10::kInt)}}, {0}));
  EXPECT_FALSE(Passes("aten::index_select",
                      {{0, x}, {2, at::ones({1})}}, {0}));
}

}  // namespace
}  // namespace tjit::runtime

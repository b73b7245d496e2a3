// Groups of several steps: storages that change, views, lists, optimizers,
// symbols. The streams are real calls; what eager left in every storage is the
// oracle.
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "compiler/ir/ir_text.h"
#include "gtest/gtest.h"
#include "tests/runtime/against_eager/lower_test_inputs.h"
#include "tests/runtime/against_eager/recorded_group.h"

namespace tjit::testing {
namespace {

using at::Tensor;

Tensor Floats(at::IntArrayRef sizes, std::uint64_t seed) {
  return Numbers(sizes, at::kFloat, seed);
}

TEST(LowerGroupsTest, AChain) {
  const Tensor x = Numbers({5, 7}, at::kFloat, 1),
               w = Numbers({5, 7}, at::kFloat, 2);
  RecordedGroup group;
  Tensor y = group.Call("aten::mul.Tensor", {x, w});
  group.Call("aten::add_.Tensor", {y, x, 0.5});
  group.Drop(y);
  Tensor z = group.Call("aten::relu", {y});
  group.Call("aten::sub_.Tensor", {w, z, 0.1});
  group.MakeScalarsRuntime();
  EXPECT_EQ(group.Compare(), "");
  EXPECT_EQ(group.lowered().function.scalars.size(), 1u);
  EXPECT_EQ(group.lowered().symbols.size(), 2u);
  EXPECT_EQ(group.lowered().return_slots.size(), 1u);
}

TEST(LowerGroupsTest, WrappedNumbersAndZeroDims) {
  for (const auto type : {at::kFloat, at::kDouble, at::kInt}) {
    const Tensor x = Numbers({3, 5}, type, 1);
    const Tensor two = at::scalar_tensor(2.5, at::kDouble);
    two.unsafeGetTensorImpl()->set_wrapped_number(true);
    const Tensor zero_dim = at::scalar_tensor(0.7, at::kDouble);
    RecordedGroup group;
    Tensor y = group.Call("aten::mul.Tensor", {x, two});
    y = group.Call("aten::add.Tensor", {two, y, 1});
    y = group.Call("aten::div.Tensor", {y, zero_dim});
    y = group.Call("aten::lt.Tensor", {y, two});
    group.Call("aten::sub.Tensor", {zero_dim, zero_dim, 1});
    EXPECT_EQ(group.Compare(), "") << at::toString(type);
  }
}

TEST(LowerGroupsTest, TypesMix) {
  const Tensor f = Numbers({3, 5}, at::kFloat, 1),
               d = Numbers({3, 5}, at::kDouble, 2),
               i = Numbers({3, 5}, at::kInt, 3),
               u = Numbers({3, 5}, at::kByte, 4), b = i.gt(0),
               h = f.to(at::kHalf);
  RecordedGroup group;
  group.Call("aten::add.Tensor", {f, d, 0.3});
  group.Call("aten::add_.Tensor", {f, d, 0.3});
  group.Call("aten::mul.Tensor", {i, f});
  group.Call("aten::mul.out", {f, f, d});
  group.Call("aten::mul.Tensor", {b, f});
  group.Call("aten::mul.Tensor", {u, i});
  group.Call("aten::div.Tensor", {i, u});
  group.Call("aten::eq.Tensor", {i, f});
  group.Call("aten::where.self", {b, i, d});
  group.Call("aten::copy_", {f, i});
  group.Call("aten::copy_", {h, d});
  group.Call("aten::copy_", {b, d});
  group.Call("aten::eq_.Scalar", {d, 1});
  group.Call("aten::fill_.Scalar", {i, 7});
  group.Call("aten::_to_copy", {f, at::kDouble});
  group.Call("aten::_to_copy", {d, at::kLong});
  group.Call("aten::fill_.Tensor", {d, at::scalar_tensor(3)});
  group.Call("aten::new_zeros", {f, std::vector<std::int64_t>{2, 3}});
  group.Call("aten::new_ones", {i, std::vector<std::int64_t>{4}});
  group.Call("aten::new_full", {d, std::vector<std::int64_t>{4}, 0.3});
  group.Call("aten::zero_", {u});
  EXPECT_EQ(group.Compare(), "");
}

TEST(LowerGroupsTest, PartsOfAStorageFromOutside) {
  // Two columns that do not meet: only they are read and written.
  Tensor x = Floats({6, 8}, 1);
  RecordedGroup group;
  group.Call("aten::add_.Tensor", {x.select(1, 2), x.select(1, 5), 1});
  group.Call("aten::mul_.Tensor", {x.select(1, 5), x.select(1, 2)});
  group.Call("aten::relu", {x.select(1, 2)});
  EXPECT_EQ(group.Compare(), "");
  EXPECT_EQ(group.lowered().function.writes.size(), 2u);
}

TEST(LowerGroupsTest, Concats) {
  for (const auto type : {at::kFloat, at::kDouble, at::kInt, at::kBool}) {
    const Tensor a = Numbers({3, 5}, at::kFloat, 1).to(type),
                 b = Numbers({4, 5}, at::kFloat, 2).to(type),
                 c = Numbers({5, 3}, at::kFloat, 3).to(type);
    RecordedGroup group;
    const Tensor rows =
        group.Call("aten::cat", {std::vector<Tensor>{a, b, c.t(), a}, 0});
    group.Call("aten::cat", {std::vector<Tensor>{a.t(), c, b.t()}, -1});
    group.Call("aten::cat", {std::vector<Tensor>{b}, 1});
    group.Call(
        "aten::cat",
        {std::vector<Tensor>{rows.slice(0, 0, 2), rows.slice(0, 5, 9)}, 0});
    // Of bytes that are neither 0 nor 1 eager's cat() keeps all bits.
    EXPECT_EQ(group.Compare(),
              type == at::kBool ? "%0 aten::cat: moves the bytes of bools" : "")
        << at::toString(type);
  }
  const Tensor last =
      Floats({2, 3, 4, 5}, 1).contiguous(at::MemoryFormat::ChannelsLast);
  RecordedGroup group;
  group.Call("aten::cat", {std::vector<Tensor>{last, last.neg()}, 1});
  EXPECT_EQ(group.Compare(), "");
  RecordedGroup types;
  types.Call("aten::cat", {std::vector<Tensor>{last, last.to(at::kDouble)}, 1});
  EXPECT_EQ(types.ExpectRefused("several types"), "");
}

TEST(LowerGroupsTest, Rolls) {
  using List = std::vector<std::int64_t>;
  const Tensor x = Floats({3, 6, 7}, 1), line = Floats({11}, 2);
  RecordedGroup group;
  for (const std::int64_t shift : {0, 1, -1, 5, -13, 600}) {
    group.Call("aten::roll", {x, List{shift}, List{1}});
    group.Call("aten::roll", {x, List{shift, 2}, List{-1, 0}});
    group.Call("aten::roll", {x, List{shift, 1, 2}, List{1, 1, 2}});
    group.Call("aten::roll", {x.select(0, 1), List{shift, 1}, List{0, 1}});
    group.Call("aten::roll", {x.select(2, 1).t(), List{shift}, List{0}});
    group.Call("aten::roll", {line, List{shift}, List{0}});
  }
  EXPECT_EQ(group.Compare(), "");
  RecordedGroup flat;
  flat.Call("aten::roll", {x, List{3}, List{}});
  EXPECT_EQ(flat.ExpectRefused("rolls all dims as one"), "");
}

// Other sizes of what is not joined along: the same function.
TEST(LowerGroupsTest, JoinsServeOtherSizes) {
  const auto record = [](std::int64_t n, RecordedGroup* group) {
    const Tensor a = Floats({n, 5}, 1), b = Floats({n, 3}, 2);
    const Tensor sum = group->Call("aten::add.Tensor", {a, a, 1});
    group->Call("aten::cat", {std::vector<Tensor>{sum, b}, 1});
    group->Call("aten::roll", {sum, std::vector<std::int64_t>{2},
                               std::vector<std::int64_t>{1}});
  };
  RecordedGroup one, other;
  record(4, &one);
  record(9, &other);
  EXPECT_EQ(one.Compare(), "");
  EXPECT_EQ(one.lowered().function.symbols, 1);
  EXPECT_EQ(other.CompareWith(one.lowered()), "");
}

TEST(LowerGroupsTest, PartsThatMeet) {
  Tensor u = Floats({7, 9}, 1);
  RecordedGroup group;
  const auto inner = u.slice(0, 1, 6).slice(1, 1, 8);
  Tensor sum = group.Call(
      "aten::add.Tensor",
      {u.slice(0, 2, 7).slice(1, 1, 8), u.slice(0, 0, 5).slice(1, 1, 8), 1});
  group.Call("aten::mul_.Scalar", {sum, 0.25});
  group.Call("aten::copy_", {inner, sum});
  Tensor again = group.Call(
      "aten::sub.Tensor",
      {u.slice(0, 2, 7).slice(1, 1, 8), u.slice(0, 0, 5).slice(1, 1, 8), 1});
  group.Call("aten::add_.Tensor", {inner, again, 1});
  group.Call("aten::mul.Tensor", {u, u});
  group.Call("aten::zero_", {u.select(0, 0)});
  EXPECT_EQ(group.Compare(), "");
}

TEST(LowerGroupsTest, PartsOfAStretchThatMeet) {
  // Nothing outside of what the steps use is touched.
  Tensor big = Floats({100}, 1);
  Tensor a = big.slice(0, 20, 30), b = big.slice(0, 25, 35);
  RecordedGroup group;
  group.Call("aten::mul_.Scalar", {a, 3.0});
  group.Call("aten::relu_", {b});
  group.Call("aten::add_.Scalar", {a, 1.0});
  EXPECT_EQ(group.Compare(), "");
}

TEST(LowerGroupsTest, PartsOfABornStorage) {
  Tensor x = Floats({4, 6}, 1);
  RecordedGroup group;
  Tensor y = group.Call("aten::neg", {x});
  group.Call("aten::mul_.Scalar", {y.select(0, 1), 3.0});
  group.Call("aten::add_.Tensor", {y.t(), x.t(), 1});
  group.Call("aten::relu", {y.view({24})});
  group.Call("aten::copy_", {y.slice(1, 0, 3), y.slice(1, 3, 6)});
  EXPECT_EQ(group.Compare(), "");
}

void ChannelsLast(RecordedGroup* group, std::int64_t batch,
                  std::int64_t width) {
  const Tensor x = Floats({batch, 3, 4, width}, 1)
                       .contiguous(at::MemoryFormat::ChannelsLast),
               scale = Floats({3, 1, 1}, 2);
  Tensor y = group->Call("aten::mul.Tensor", {x, scale});
  ASSERT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
  group->Call("aten::relu_", {y});
  Tensor z = group->Call(
      "aten::add.Tensor",
      {y, x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2}), 1});
  group->Call("aten::threshold_backward", {z, y, 0});
  group->Call("aten::clone", {z.permute({2, 0, 3, 1})});
  group->Drop(y);
}

TEST(LowerGroupsTest, ResultsLieAsEagersDo) {
  RecordedGroup recorded;
  ChannelsLast(&recorded, 2, 5);
  ASSERT_EQ(recorded.Compare(), "");
  EXPECT_EQ(recorded.lowered().symbols.size(), 4u);
  RecordedGroup other;
  ChannelsLast(&other, 3, 17);
  EXPECT_EQ(other.CompareWith(recorded.lowered()), "");
}

TEST(LowerGroupsTest, StepsThatMeetThemselvesAreRefused) {
  Tensor x = Floats({6, 6}, 1);
  {
    RecordedGroup group;
    group.Call("aten::add_.Tensor", {x, x.t().contiguous().t(), 1});
    EXPECT_EQ(group.Compare(), "");
  }
  {
    // Eager does not see that these meet.
    RecordedGroup group;
    group.Call("aten::mul_.Tensor", {x.slice(0, 1, 6).slice(1, 1, 6),
                                     x.slice(0, 0, 5).slice(1, 0, 5)});
    EXPECT_EQ(group.ExpectRefused("element by element"), "");
  }
  {
    RecordedGroup group;
    group.Call("aten::sum", {x});
    EXPECT_EQ(group.ExpectRefused("%0 aten::sum: is not lowered"), "");
  }
}

TEST(LowerGroupsTest, WhatIsNotClaimed) {
  const Tensor x = Floats({5, 7}, 1), y = Floats({5, 7}, 2),
               h = x.to(at::kHalf), i = Numbers({5, 7}, at::kInt, 3);
  const auto refused = [](const std::string& op, torch::jit::Stack arguments) {
    RecordedGroup group;
    group.Call(op, std::move(arguments));
    return group.Lower();
  };
  EXPECT_NE(refused("aten::maximum", {x, y.slice(0, 0, 1)}), "");
  EXPECT_NE(refused("aten::copysign.Tensor", {x, y}), "");
  EXPECT_NE(refused("aten::fmod.Tensor", {x, y}), "");
  EXPECT_NE(refused("aten::pow.Tensor_Scalar", {x.t(), 1.5}), "");
  EXPECT_NE(refused("aten::add.Scalar", {x, 0.5, 0.3}), "");
  EXPECT_NE(refused("aten::mul_.Scalar", {h, 0.3}), "");
  EXPECT_NE(refused("aten::add.Tensor", {h, h, 0.3}), "");
  EXPECT_NE(refused("aten::amax", {x.t(), std::vector<std::int64_t>{0}, false}),
            "");
  EXPECT_NE(refused("aten::sigmoid", {x.t()}), "");
  EXPECT_NE(refused("aten::lerp.Scalar", {x, y, 1.0}), "");
  EXPECT_NE(refused("aten::mse_loss", {x.t(), y.t(), 1}), "");
  EXPECT_NE(refused("aten::add.Tensor", {x.to(at::kComplexFloat), y, 1}), "");
  EXPECT_NE(refused("aten::mul.Tensor", {at::_neg_view(x), y}), "");
  EXPECT_EQ(refused("aten::eq.Tensor", {h, h}), "");
  EXPECT_EQ(refused("aten::amax", {i, std::vector<std::int64_t>{1}, false}),
            "");
}

TEST(LowerGroupsTest, Reductions) {
  const Tensor x = Numbers({5, 7, 3}, at::kFloat, 1),
               i = Numbers({5, 7, 3}, at::kInt, 3),
               u = Numbers({5, 7, 3}, at::kByte, 5);
  const std::vector<std::int64_t> dims = {-1, 0};
  RecordedGroup group;
  for (const Tensor& t : {x, i, u}) {
    group.Call("aten::any", {t});
    group.Call("aten::any.dim", {t, 1, true});
    group.Call("aten::all", {t});
    group.Call("aten::all.dim", {t, -1, false});
  }
  group.Call("aten::amax", {i, dims, true});
  group.Call("aten::amin", {u, dims, false});
  group.Call("aten::max", {i});
  group.Call("aten::min", {u});
  group.Call("aten::amax", {i.permute({2, 0, 1}), dims, false});
  EXPECT_EQ(group.Compare(), "");
}

TEST(LowerGroupsTest, Lists) {
  std::vector<Tensor> a, b, c;
  for (std::int64_t i = 0; i < 3; ++i) {
    a.push_back(Floats({i + 2, 5}, 10 + i));
    b.push_back(Floats({i + 2, 5}, 20 + i));
    c.push_back(Floats({i + 2, 5}, 30 + i));
  }
  const auto number = at::scalar_tensor(0.7);
  RecordedGroup group;
  group.Call("aten::_foreach_add_.List", {a, b, 0.3});
  group.Call("aten::_foreach_mul_.Scalar", {a, 0.9});
  group.MakeScalarsRuntime();
  group.Call("aten::_foreach_mul_.Tensor", {b, number});
  group.Call("aten::_foreach_addcmul_.Scalar", {a, b, c, 0.1});
  group.Call("aten::_foreach_lerp_.Scalar", {a, b, 0.1});
  group.Call("aten::_foreach_sqrt", {a});
  const std::vector<Tensor> roots = group.results();
  group.Call("aten::_foreach_add_.Scalar", {roots, 1e-8});
  group.Call("aten::_foreach_addcdiv_.Scalar", {c, a, roots, -0.1});
  group.Call("aten::_foreach_zero_", {b});
  group.Call("aten::_foreach_neg", {c});
  group.Call("aten::_foreach_copy_", {b, c, false});
  EXPECT_EQ(group.Compare(), "");
}

// torch::optim::Adam as it runs for one parameter.
void Adam(RecordedGroup* group, Tensor p, Tensor g, Tensor m, Tensor v) {
  group->Call("aten::mul_.Scalar", {m, 0.9});
  group->Call("aten::add_.Tensor", {m, g, 1 - 0.9});
  group->Call("aten::mul_.Scalar", {v, 0.999});
  group->Call("aten::addcmul_", {v, g, g, 1 - 0.999});
  Tensor root = group->Call("aten::sqrt", {v});
  Tensor denominator = group->Call("aten::div.Scalar", {root, 0.3});
  group->MakeScalarsRuntime();
  group->Call("aten::add_.Scalar", {denominator, 1e-8, 1});
  group->Call("aten::addcdiv_", {p, m, denominator, -1e-3});
  group->MakeScalarsRuntime();
  group->Drop(root);
  group->Drop(denominator);
}

TEST(LowerGroupsTest, AdamHasNoReturns) {
  RecordedGroup group;
  for (std::uint64_t i = 0; i < 3; ++i) {
    Adam(&group, Floats({4, 5}, i), Floats({4, 5}, i + 10),
         Floats({4, 5}, i + 20), Floats({4, 5}, i + 30).abs());
  }
  EXPECT_EQ(group.Compare(), "");
  EXPECT_TRUE(group.lowered().return_slots.empty());
  EXPECT_EQ(group.lowered().scalars.size(), 6u);
  EXPECT_EQ(group.lowered().function.writes.size(), 9u);
  EXPECT_EQ(group.lowered().symbols.size(), 6u);
}

TEST(LowerGroupsTest, DroppedStoragesAreNotWritten) {
  Tensor x = Floats({4, 5}, 1), y = Floats({4, 5}, 2);
  RecordedGroup group;
  group.Call("aten::relu_", {x});
  group.Call("aten::add_.Tensor", {y, x, 1});
  group.Drop(x);
  EXPECT_EQ(group.Compare(), "");
  EXPECT_EQ(group.lowered().function.writes.size(), 1u);
}

// A layer's pointwise part, for any batch.
void Layer(RecordedGroup* group, std::int64_t batch) {
  const Tensor x = Floats({batch, 8}, 1), bias = Floats({8}, 2),
               column = Floats({batch, 1}, 3);
  Tensor y = group->Call("aten::add.Tensor", {x, bias, 1});
  y = group->Call("aten::mul.Tensor", {y, column});
  Tensor z = group->Call("aten::tanh", {y.t()});
  group->Call("aten::mul_.Tensor", {y, z.t()});
  group->Call("aten::gt.Scalar", {y, 0});
  group->Call("aten::clone", {x.slice(1, 2, 5)});
}

TEST(LowerGroupsTest, SymbolsHoldForOtherSizes) {
  RecordedGroup recorded;
  Layer(&recorded, 32);
  ASSERT_EQ(recorded.Compare(), "");
  ASSERT_EQ(recorded.lowered().symbols.size(), 1u);  // 8 is a stride
  for (const std::int64_t batch : {5, 70, 2}) {
    RecordedGroup other;
    Layer(&other, batch);
    EXPECT_EQ(other.CompareWith(recorded.lowered()), "") << batch;
    // One kernel for all of them: lowered alone, each gives the same text.
    EXPECT_EQ(other.Lower(), "");
    EXPECT_EQ(Print(other.lowered().function),
              Print(recorded.lowered().function));
  }
}

// A gradient that a full sum expanded, and a parameter in a flat buffer.
void ExpandedAndFlat(RecordedGroup* group, std::int64_t batch) {
  const Tensor x = Floats({batch, 8}, 1), flat = Floats({500}, 2),
               one = at::ones({});
  const Tensor parameter = flat.slice(0, 100, 100 + batch);
  group->Call("aten::fill_.Scalar", {one, 1.0});
  Tensor y =
      group->Call("aten::threshold_backward", {one.expand({batch, 8}), x, 0});
  group->Call("aten::add_.Tensor", {parameter, y.select(1, 0), -0.1});
  group->Call("aten::mul_.Scalar", {parameter, 0.5});
}

TEST(LowerGroupsTest, SymbolsOfExpandedAndPartialTensors) {
  RecordedGroup recorded;
  ExpandedAndFlat(&recorded, 32);
  ASSERT_EQ(recorded.Compare(), "");
  EXPECT_EQ(recorded.lowered().symbols.size(), 2u);
  for (const std::int64_t batch : {5, 70}) {
    RecordedGroup other;
    ExpandedAndFlat(&other, batch);
    EXPECT_EQ(other.CompareWith(recorded.lowered()), "") << batch;
  }
}

TEST(LowerGroupsTest, ASymbolMayBeOne) {
  const auto record = [](RecordedGroup* group, std::int64_t batch) {
    const Tensor x = Floats({batch, 8}, 1), w = Floats({batch, 8}, 2);
    Tensor y = group->Call("aten::mul.Tensor", {x, w});
    group->Call("aten::add_.Tensor", {w, y, 0.5});
    group->Call("aten::mse_loss", {y, w, 0});
  };
  RecordedGroup recorded;
  record(&recorded, 32);
  ASSERT_EQ(recorded.Compare(), "");
  ASSERT_EQ(recorded.lowered().symbols.size(), 2u);
  for (const std::int64_t batch : {1, 5, 33}) {
    RecordedGroup other;
    record(&other, batch);
    EXPECT_EQ(other.CompareWith(recorded.lowered()), "") << batch;
  }
}

}  // namespace
}  // namespace tjit::testing

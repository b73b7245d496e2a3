// Ops whose bits depend on the place of an element: lowered of tensors that lie
// flat, with eager's bits for every length; refused of others.
#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/lower/op_rules.h"
#include "gtest/gtest.h"
#include "tests/runtime/against_eager/lower_cases.h"
#include "tests/runtime/against_eager/lower_test_inputs.h"
#include "tests/runtime/against_eager/recorded_group.h"

namespace tjit::testing {
namespace {

using at::Tensor;
using c10::IValue;

torch::jit::Stack ArgumentsOf(const OpCase& c, at::ScalarType type,
                              at::IntArrayRef sizes, Lay lay) {
  torch::jit::Stack stack;
  std::uint64_t seed = 3;
  for (const char* a = c.arguments; *a != '\0'; ++a) {
    switch (*a) {
      case 'T':
        stack.emplace_back(Laid(Numbers(sizes, type, ++seed), lay));
        break;
      case 'S':
        stack.emplace_back(0.3);
        break;
      case 'd':
        stack.emplace_back(1.25);
        break;
      case 'h':
        stack.emplace_back(0.5);
        break;
      case 'm':
        stack.emplace_back(-0.5);
        break;
      case 'f':
      case 'y':
        stack.emplace_back(*a == 'y');
        break;
      case 'n':
        stack.emplace_back("none");
        break;
      case 't':
        stack.emplace_back("tanh");
        break;
      default:
        stack.emplace_back(std::int64_t{*a - '0'});
    }
  }
  return stack;
}

// The functional, in-place and out= forms. "" or what differs.
std::string Check(const OpCase& c, at::ScalarType type, at::IntArrayRef sizes) {
  const torch::jit::Stack stack = ArgumentsOf(c, type, sizes, Lay::kDense);
  const lower::OpRule& rule = *lower::RuleOf(c.op);
  RecordedGroup functional, in_place, out;
  const Tensor result = functional.Call(c.op, stack);
  std::string difference = functional.Compare();
  if (difference.empty() && !rule.in_place.empty()) {
    torch::jit::Stack arguments = stack;
    arguments[0] = stack[0].toTensor().clone();
    in_place.Call(std::string(rule.in_place), arguments);
    difference = in_place.Compare();
  }
  if (difference.empty() && !rule.out.empty()) {
    torch::jit::Stack arguments = stack;
    arguments.emplace_back(at::full_like(result, 9));
    out.Call(std::string(rule.out), arguments);
    difference = out.Compare();
  }
  return difference;
}

TEST(LowerPositionDependentTest, FlatTensorsHaveTheBitsOfEager) {
  for (const OpCase& c : PositionDependentCases()) {
    for (const auto type :
         {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      SCOPED_TRACE(
          absl::StrCat(c.op, " ", c.arguments, " ", at::toString(type)));
      const bool is_refused_of_halves =
          std::string(c.op) == "aten::pow.Tensor_Scalar" ||
          std::string(c.op) == "aten::clamp.Tensor" ||
          std::string(c.op) == "aten::lerp.Tensor" ||
          absl::EndsWith(c.op, "_loss_backward");
      if (is_refused_of_halves && at::isReducedFloatingType(type)) continue;
      for (std::int64_t n = 1; n <= 70; ++n) {
        // Of the other types those around their vectors.
        const bool is_near_vectors = (n + 1) % 8 < 3 || n == 2;
        if (type != at::kFloat && !is_near_vectors) continue;
        ASSERT_EQ(Check(c, type, {1, n}), "") << n;
      }
      for (const std::int64_t n : {7, 16, 64, 700}) {
        ASSERT_EQ(Check(c, type, {3, n}), "") << n;
      }
    }
  }
}

// Halves of rows that are whole vectors, along any dim.
TEST(LowerPositionDependentTest, HalvesOfRowsOfWholeVectors) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const auto& [sizes, dim] :
         std::vector<std::pair<std::vector<std::int64_t>, std::int64_t>>{
             {{3, 128}, 1},
             {{3, 128}, -1},
             {{64, 2}, 0},
             {{5, 2, 64}, -2},
             {{256}, 0},
             {{2, 6, 8, 16}, 1},
             {{1, 384}, 1}}) {
      const Tensor x = Numbers(sizes, type, 1);
      RecordedGroup group;
      group.SetThreads(1);
      const Tensor y = group.Call("aten::glu", {x, dim});
      const Tensor g = Numbers(y.sizes(), type, 2);
      const Tensor one = Numbers({1}, type, 3).expand(y.sizes());
      group.Call("aten::glu_backward", {g, x, dim});
      group.Call("aten::glu_backward", {one, x, dim});
      EXPECT_EQ(group.Compare(), "") << at::IntArrayRef(sizes) << dim;
    }
  }
  const auto why = [](const Tensor& x, int threads) {
    RecordedGroup group;
    group.SetThreads(threads);
    group.Call("aten::glu", {x, 1});
    return group.ExpectRefused("rows with a tail");
  };
  EXPECT_EQ(why(at::randn({3, 130}), 1), "");
  EXPECT_EQ(why(at::randn({3, 256}).slice(1, 0, 256, 2), 1), "");
  EXPECT_EQ(why(at::randn({3, 128}), 2), "");
  EXPECT_EQ(why(at::randn({3, 128}), 0), "");
}

// The gradient of a mean or sum is one number; others must lie as the rest.
TEST(LowerPositionDependentTest, GradientsOfLosses) {
  for (const char* op :
       {"aten::smooth_l1_loss_backward", "aten::huber_loss_backward"}) {
    for (const auto type : {at::kFloat, at::kDouble}) {
      for (const std::int64_t n : {1, 5, 16, 33, 70}) {
        const Tensor x = Numbers({3, n}, type, 1), y = Numbers({3, n}, type, 2);
        RecordedGroup group;
        for (const std::int64_t reduction : {1, 2}) {
          const Tensor number = at::scalar_tensor(0.7, type);
          group.Call(op, {number, x, y, reduction, 0.7});
          group.MakeScalarsRuntime();
        }
        EXPECT_EQ(group.Compare(), "") << op << " " << n;
      }
    }
    const Tensor x = at::randn({3, 5});
    RecordedGroup group;
    group.Call(op, {at::randn({5}).expand({3, 5}), x, x, 0, 0.7});
    EXPECT_EQ(group.ExpectRefused("is not flat"), "");
  }
}

// Zeros of both signs are in all of them.
TEST(LowerPositionDependentTest, BoundsThatAreAbsent) {
  for (const auto type : {at::kFloat, at::kDouble, at::kLong}) {
    for (const std::int64_t n : {5, 33, 70}) {
      const Tensor x = Numbers({3, n}, type, 1).clamp_(-1, 1).trunc();
      const Tensor y = x.neg();
      RecordedGroup group;
      group.Call("aten::clamp.Tensor", {x, y, IValue()});
      group.Call("aten::clamp.Tensor", {x, IValue(), y});
      group.Call("aten::clamp.Tensor", {x, y, x});
      EXPECT_EQ(group.Compare(), "") << n;
    }
  }
  const Tensor x = at::randn({3, 5});
  RecordedGroup group;
  group.Call("aten::clamp_.Tensor", {x, x.neg(), IValue()});
  EXPECT_EQ(group.ExpectRefused("writes one of its operands"), "");
}

// A weight of 1 between zeros of both signs.
TEST(LowerPositionDependentTest, LerpsToTheEnd) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const std::int64_t n : {5, 33, 70}) {
      const Tensor x = Numbers({3, n}, type, 1).clamp_(-1, 1).trunc();
      const Tensor y = Numbers({3, n}, type, 2).clamp_(-1, 1).trunc();
      const Tensor weight = Numbers({3, n}, type, 3).gt(0).to(type);
      RecordedGroup group;
      group.Call("aten::lerp.Tensor", {x, y, weight});
      group.Call("aten::lerp_.Tensor", {x.clone(), y, weight});
      EXPECT_EQ(group.Compare(), "") << n;
    }
  }
}

TEST(LowerPositionDependentTest, OtherTensorsAreRefused) {
  for (const OpCase& c : PositionDependentCases()) {
    for (const Lay lay : {Lay::kStrided, Lay::kTransposed}) {
      SCOPED_TRACE(absl::StrCat(c.op, " ", c.arguments));
      RecordedGroup group;
      group.Call(c.op, ArgumentsOf(c, at::kFloat, {5, 33}, lay));
      EXPECT_EQ(group.ExpectRefused("is not flat"), "");
    }
  }
  const Tensor x = Numbers({5, 33}, at::kFloat, 1);
  for (const Tensor& other :
       {Numbers({33}, at::kFloat, 2), Numbers({5, 1}, at::kFloat, 2),
        Numbers({5, 33}, at::kDouble, 2), at::scalar_tensor(0.3),
        Numbers({1, 33}, at::kFloat, 2).expand({5, 33})}) {
    RecordedGroup group;
    group.Call("aten::pow.Tensor_Tensor", {x, other});
    EXPECT_EQ(group.ExpectRefused("is not flat"), "");
  }
  RecordedGroup channels_last;
  channels_last.Call(
      "aten::sigmoid",
      {at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)});
  EXPECT_EQ(channels_last.ExpectRefused("is not flat"), "");
  RecordedGroup in_place;
  in_place.Call("aten::maximum.out", {x, x.neg(), x});
  EXPECT_EQ(in_place.ExpectRefused("writes one of its operands"), "");
  RecordedGroup integers;
  integers.Call("aten::sigmoid", {Numbers({5, 33}, at::kInt, 3)});
  EXPECT_EQ(integers.ExpectRefused("is not flat"), "");
}

}  // namespace
}  // namespace tjit::testing

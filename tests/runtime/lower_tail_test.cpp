// Ops whose bits depend on the place of an element: lowered of tensors that lie
// flat, with eager's bits for every length; refused of others.
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/lower/op_rules.h"
#include "gtest/gtest.h"
#include "tests/runtime/lower_cases.h"
#include "tests/runtime/lower_numbers.h"
#include "tests/runtime/recorded_group.h"

namespace tjit::testing {
namespace {

using at::Tensor;

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

TEST(LowerTailTest, FlatTensorsHaveTheBitsOfEager) {
  for (const OpCase& c : TailCases()) {
    for (const auto type :
         {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      SCOPED_TRACE(
          absl::StrCat(c.op, " ", c.arguments, " ", at::toString(type)));
      const bool is_pow_scalar = std::string(c.op) == "aten::pow.Tensor_Scalar";
      if (is_pow_scalar && at::isReducedFloatingType(type))
        continue;  // refused
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

TEST(LowerTailTest, OtherTensorsAreRefused) {
  for (const OpCase& c : TailCases()) {
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

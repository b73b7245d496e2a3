// What compiler/lower/ claims has eager's bits: streams of real calls are
// recorded, lowered, interpreted and compared, for special values, lengths
// with and without a tail, contiguous and strided.
#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <c10/core/DispatchKeySet.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/lower/geometry.h"
#include "compiler/lower/op_rules.h"
#include "gtest/gtest.h"
#include "tests/runtime/against_eager/lower_cases.h"
#include "tests/runtime/against_eager/lower_test_inputs.h"
#include "tests/runtime/against_eager/recorded_group.h"

namespace tjit::testing {
namespace {

using at::Scalar;
using at::Tensor;

// Lowering claims the roundings of eager's AVX2 and AVX-512 kernels (lower.h);
// the runtime compiles nothing where others run (tier2_capability_test).
class NeedsClaims : public ::testing::Environment {
  void SetUp() override {
    const std::string capability = at::get_cpu_capability();
    if (capability != "AVX2" && capability != "AVX512") {
      GTEST_SKIP() << "nothing is claimed of " << capability << " kernels";
    }
  }
};
const auto* const kNeedsClaims =
    ::testing::AddGlobalTestEnvironment(new NeedsClaims);

torch::jit::Stack ArgumentsOf(const OpCase& c, at::ScalarType type,
                              at::IntArrayRef sizes, Lay lay,
                              std::uint64_t seed) {
  torch::jit::Stack stack;
  for (const char* a = c.arguments; *a != '\0'; ++a) {
    switch (*a) {
      case 'T':
        // Only every other operand lies otherwise: mixed strides are a path
        // of their own in eager.
        ++seed;
        stack.emplace_back(Laid(Numbers(sizes, type, seed),
                                seed % 2 == 0 ? lay : Lay::kDense));
        break;
      case 'M':
        stack.emplace_back(Laid(Numbers(sizes, at::kChar, ++seed).gt(0), lay));
        break;
      case 'S':
        if (at::isFloatingType(type)) {
          stack.emplace_back(0.3);
        } else {
          stack.emplace_back(std::int64_t{3});
        }
        break;
      case 'N':
        stack.emplace_back();
        break;
      case 'h':
        stack.emplace_back(0.5);
        break;
      case 'm':
        stack.emplace_back(-0.5);
        break;
      case 'd':
        stack.emplace_back(1.25);
        break;
      case 'j':
        stack.emplace_back(-1.0);
        break;
      case 'k':
        stack.emplace_back(std::int64_t{-2});
        break;
      case 'f':
        stack.emplace_back(false);
        break;
      default:
        stack.emplace_back(std::int64_t{*a - '0'});
    }
  }
  return stack;
}

// Eager's own in-place and out= forms of the call. "" if there is no rule.
std::string CheckForms(const lower::OpRule& rule,
                       const torch::jit::Stack& stack, const Tensor& result,
                       Lay lay) {
  if (!rule.in_place.empty() && !rule.functional.empty()) {
    torch::jit::Stack arguments = stack;
    const Tensor self = arguments[0].toTensor().clone();
    arguments[0] = self;
    RecordedGroup group;
    try {
      group.Call(std::string(rule.in_place), arguments);
      std::string difference = group.Compare();
      if (rule.in_place == "aten::mul_.Scalar" &&
          at::isReducedFloatingType(self.scalar_type())) {
        // Eager rounds the number there.
        const bool is_refused = absl::StrContains(difference, "a half type");
        difference = is_refused ? "" : "mul_.Scalar was not refused";
      }
      if (!difference.empty()) return difference;
    } catch (const c10::Error& error) {
      // An integer tensor that takes no fractions.
    }
  }
  if (rule.out.empty()) return "";
  torch::jit::Stack arguments = stack;
  Tensor out = at::full_like(result, 9);
  if (out.dim() == 2) out = Laid(out, lay);
  arguments.emplace_back(out);
  RecordedGroup group;
  group.Call(std::string(rule.out), arguments);
  const std::string difference = group.Compare();
  // Nothing shows what the default dtype is.
  return absl::StrContains(difference, "default dtype") ? "" : difference;
}

// The op on its own: lengths around eager's vectors, all ways to lie.
void CheckOp(const OpCase& c, at::ScalarType type) {
  SCOPED_TRACE(absl::StrCat(c.op, " ", c.arguments, " ", at::toString(type)));
  std::uint64_t seed = 17;
  for (const Lay lay : kLays) {
    for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
             {1, 1}, {1, 7}, {3, 5}, {2, 16}, {1, 70}, {7, 33}}) {
      RecordedGroup group;
      std::string difference;
      try {
        const torch::jit::Stack stack =
            ArgumentsOf(c, type, sizes, lay, seed++);
        const Tensor result = group.Call(c.op, stack);
        difference = group.Compare();
        if (difference.empty()) {
          difference = CheckForms(*lower::RuleOf(c.op), stack, result, lay);
        }
      } catch (const c10::Error& error) {
        difference = error.what_without_backtrace();
      }
      EXPECT_EQ(difference, "") << "lay " << static_cast<int>(lay);
      if (!difference.empty()) return;
    }
  }
}

// All combinations of special elements, for all special scalars.
void CheckSpecial(const OpCase& c, at::ScalarType type) {
  const double inf = std::numeric_limits<double>::infinity();
  const double tiny = type == at::kFloat ? 1e-40 : 1e-310;
  const double big = type == at::kFloat ? 3.4e38 : 1.7e308;
  const Tensor special =
      at::tensor({0.0, -0.0, inf - inf, inf, -inf, 1.0, -1.0, 0.5, 3.0, -3.0,
                  0.3, tiny, -tiny, big, -big, 7.25},
                 at::TensorOptions(type));
  const double scalars[] = {0.0,  -0.0, 1.0,  -1.0,      0.3,  2.0,
                            -3.0, inf,  -inf, inf - inf, 1e-40};
  std::int64_t tensors = 0, numbers = 0;
  for (const char* a = c.arguments; *a != '\0'; ++a) {
    tensors += *a == 'T';
    numbers += *a == 'S';
  }
  std::int64_t n = 1;
  for (std::int64_t i = 0; i < tensors; ++i) n *= special.numel();
  const std::size_t picks = numbers == 0 ? 1 : std::size(scalars);
  for (std::size_t pick = 0; pick < picks; ++pick) {
    torch::jit::Stack stack = ArgumentsOf(c, type, {1, n}, Lay::kDense, 3);
    std::int64_t repeat = 1, number = 0;
    for (std::size_t i = 0; i < stack.size(); ++i) {
      if (c.arguments[i] == 'S') {
        stack[i] = scalars[(pick + 3 * number++) % std::size(scalars)];
      }
      if (c.arguments[i] != 'T') continue;
      stack[i] = special.repeat_interleave(repeat)
                     .repeat({n / repeat / special.numel()})
                     .view({1, n});
      repeat *= special.numel();
    }
    RecordedGroup group;
    try {
      group.Call(c.op, stack);
    } catch (const c10::Error& error) {
      continue;  // eager takes no such scalar
    }
    const std::string difference = group.Compare();
    if (absl::StrContains(difference, "may be 1")) continue;  // refused
    EXPECT_EQ(difference, "") << "scalar " << scalars[pick];
    if (!difference.empty()) return;
  }
}

TEST(LowerAgainstEagerTest, SpecialElementsAndScalars) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    for (const OpCase& c : PointwiseCases()) {
      SCOPED_TRACE(
          absl::StrCat(c.op, " ", c.arguments, " ", at::toString(type)));
      CheckSpecial(c, type);
    }
    for (const OpCase& c : CompositeCases()) {
      SCOPED_TRACE(
          absl::StrCat(c.op, " ", c.arguments, " ", at::toString(type)));
      CheckSpecial(c, type);
    }
  }
}

Tensor Smaller(const Tensor& t, const std::string& shape) {
  if (shape == "0d") return t.select(0, 0).select(0, 0).clone();
  if (shape == "row") return t.select(0, 0).clone();
  if (shape == "column") return t.slice(1, 0, 1).clone();
  return t.slice(1, 0, 1).clone().expand(t.sizes());
}

void CheckBroadcast(const OpCase& c, at::ScalarType type, std::size_t small,
                    const std::string& shape) {
  SCOPED_TRACE(absl::StrCat(c.op, " ", c.arguments, " ", at::toString(type),
                            " ", shape, " ", small));
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
           {3, 70}, {1, 70}, {5, 33}, {9, 16}, {70, 1}, {1, 1}}) {
    torch::jit::Stack stack = ArgumentsOf(c, type, sizes, Lay::kDense, 40);
    std::size_t tensor = 0;
    for (std::size_t i = 0; i < stack.size(); ++i) {
      if (c.arguments[i] != 'T' || tensor++ != small) continue;
      stack[i] = Smaller(stack[i].toTensor(), shape);
    }
    RecordedGroup group;
    try {
      group.Call(c.op, stack);
    } catch (const c10::Error& error) {
      return;  // eager broadcasts nothing here
    }
    const std::string difference = group.Compare();
    if (absl::StrContains(difference, "broadcast")) return;  // refused
    EXPECT_EQ(difference, "");
    if (!difference.empty()) return;
  }
}

TEST(LowerAgainstEagerTest, FloatOps) {
  for (const OpCase& c : PointwiseCases()) {
    CheckOp(c, at::kFloat);
    CheckOp(c, at::kDouble);
  }
}

TEST(LowerAgainstEagerTest, Booleans) {
  int checked = 0;
  for (const std::vector<OpCase>& cases :
       {PointwiseCases(), CompositeCases(), IntegerCases()}) {
    for (const OpCase& c : cases) {
      SCOPED_TRACE(absl::StrCat(c.op, " ", c.arguments));
      RecordedGroup group;
      try {
        group.Call(c.op, ArgumentsOf(c, at::kBool, {3, 7}, Lay::kDense, 5));
      } catch (const c10::Error& error) {
        continue;  // not of booleans
      }
      if (!group.Lower().empty()) continue;
      EXPECT_EQ(group.Compare(), "");
      ++checked;
    }
  }
  EXPECT_GT(checked, 30);
}

// What is not of whole half operands is refused.
TEST(LowerAgainstEagerTest, HalfTypes) {
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    for (const OpCase& c : HalfCases()) CheckOp(c, type);
    int lowered = 0;
    for (const OpCase& c : PointwiseCases()) {
      RecordedGroup group;
      group.Call(c.op, ArgumentsOf(c, type, {3, 70}, Lay::kDense, 5));
      if (!group.Lower().empty()) continue;
      CheckOp(c, type);
      ++lowered;
    }
    for (const OpCase& c : CompositeCases()) {
      RecordedGroup group;
      group.Call(c.op, ArgumentsOf(c, type, {3, 70}, Lay::kDense, 5));
      if (!group.Lower().empty()) continue;
      CheckOp(c, type);
      ++lowered;
    }
    std::printf("%d ops of %s\n", lowered, at::toString(type));
    EXPECT_GE(lowered, 60);
  }
}

TEST(LowerAgainstEagerTest, CompositesAndData) {
  for (const OpCase& c : CompositeCases()) {
    CheckOp(c, at::kFloat);
    CheckOp(c, at::kDouble);
    if (c.for_integers) CheckOp(c, at::kInt);
  }
}

// One operand after another has fewer dims or a dim of size 1, or stride 0.
TEST(LowerAgainstEagerTest, BroadcastOperands) {
  for (const OpCase& c : PointwiseCases()) {
    const auto tensors = static_cast<std::size_t>(
        std::count(c.arguments, c.arguments + std::strlen(c.arguments), 'T'));
    if (tensors < 2) continue;
    for (const auto type : {at::kFloat, at::kDouble}) {
      for (std::size_t small = 0; small < tensors; ++small) {
        for (const char* shape : {"0d", "row", "column", "expanded"}) {
          CheckBroadcast(c, type, small, shape);
        }
      }
    }
  }
}

TEST(LowerAgainstEagerTest, IntegerOps) {
  for (const auto type : {at::kLong, at::kInt, at::kShort, at::kByte}) {
    for (const OpCase& c : PointwiseCases()) {
      if (c.for_integers) CheckOp(c, type);
    }
    for (const OpCase& c : IntegerCases()) CheckOp(c, type);
  }
}

// The arguments of a list op, from its spec and its overload.
torch::jit::Stack ListArguments(const lower::OpRule& rule,
                                const std::string& name) {
  const std::string spec = rule.operand_spec;
  std::size_t lists = name.find("copy") == std::string::npos ? 1 : 2;
  for (const char c : spec) {
    if (c >= '0' && c <= '9') lists = std::max<std::size_t>(lists, c - '0' + 1);
  }
  torch::jit::Stack stack;
  for (std::size_t l = 0; l < lists; ++l) {
    std::vector<Tensor> list;
    for (std::int64_t i = 0; i < 3; ++i) {
      list.push_back(Numbers({i + 2, 5}, at::kFloat, l * 10 + i));
    }
    stack.emplace_back(list);
  }
  if (spec.find('T') != std::string::npos) {
    stack.emplace_back(at::scalar_tensor(0.7));
  }
  if (spec.find('a') != std::string::npos) {
    stack.emplace_back(absl::StrContains(spec, "T") ? 1.0 : 0.3);
  }
  if (spec.find('*') != std::string::npos) {
    c10::impl::GenericList scalars(c10::NumberType::get());
    for (const double number : {0.3, 0.5, -2.0}) scalars.push_back(number);
    stack.emplace_back(scalars);
  }
  return stack;
}

TEST(LowerAgainstEagerTest, ListOps) {
  for (const lower::OpRule& rule : lower::ForeachRules()) {
    for (const std::string_view view : {rule.functional, rule.in_place}) {
      if (view.empty()) continue;
      const std::string name(view);
      SCOPED_TRACE(name);
      RecordedGroup group;
      try {
        group.Call(name, ListArguments(rule, name));
        EXPECT_EQ(group.Compare(), "");
      } catch (const c10::Error& error) {
        ADD_FAILURE() << error.what_without_backtrace();
      }
    }
  }
}

// What the tables above do not have is in lower_groups_test.cpp, or in
// lower_position_dependent_test.cpp.
TEST(LowerAgainstEagerTest, EveryRuleHasACase) {
  std::set<std::string_view> cases = {
      "aten::copy_",        "aten::zero_",     "aten::_to_copy",
      "aten::fill_.Tensor", "aten::new_zeros", "aten::new_ones",
      "aten::new_full",     "aten::glu",       "aten::glu_backward"};
  for (const OpCase& c : PointwiseCases()) cases.insert(c.op);
  for (const OpCase& c : CompositeCases()) cases.insert(c.op);
  for (const OpCase& c : IntegerCases()) cases.insert(c.op);
  for (const OpCase& c : PositionDependentCases()) cases.insert(c.op);
  for (const auto family :
       {lower::PointwiseRules(), lower::CompositeRules(),
        lower::CopyFillRules(), lower::PositionDependentRules(),
        lower::VectorRemainderRules()}) {
    for (const lower::OpRule& rule : family) {
      const auto name =
          rule.functional.empty() ? rule.in_place : rule.functional;
      EXPECT_EQ(cases.count(name), 1u) << name;
    }
  }
}

TEST(LowerAgainstEagerTest, KeySetsOfViewsThatAreNotTheirBytes) {
  EXPECT_EQ(c10::DispatchKeySet(c10::DispatchKey::Negative).raw_repr(),
            lower::kNegativeKey);
  EXPECT_EQ(c10::DispatchKeySet(c10::DispatchKey::Conjugate).raw_repr(),
            lower::kConjugateKey);
}

}  // namespace
}  // namespace tjit::testing

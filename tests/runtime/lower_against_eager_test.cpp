// What compiler/lower/ claims has eager's bits: streams of real calls are
// recorded, lowered, interpreted and compared, for special values, lengths
// with and without a tail, contiguous and strided.
#include <ATen/ATen.h>
#include <c10/core/DispatchKeySet.h>

#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/lower/geometry.h"
#include "gtest/gtest.h"
#include "tests/runtime/recorded_group.h"

namespace tjit::testing {
namespace {

using at::Scalar;
using at::Tensor;

// Random numbers, and those at which formulas differ.
Tensor Numbers(at::IntArrayRef sizes, at::ScalarType type, std::uint64_t seed) {
  const double inf = std::numeric_limits<double>::infinity();
  const double special[] = {0,    -0.0,  1,      -1,     inf,  -inf, inf - inf,
                            0.5,  -0.5,  2,      1e-40,  -1e-40, 1e30, -3e38,
                            5e-324, 88.8, -104.0, 1e300};
  std::mt19937_64 random(seed);
  Tensor t = at::empty(sizes, at::kDouble);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    const std::uint64_t pick = random();
    t.data_ptr<double>()[i] =
        !at::isFloatingType(type) ? static_cast<double>(pick % 200) - 99
        : pick % 4 == 0           ? special[pick / 4 % std::size(special)]
                                  : static_cast<double>(pick % 100000) / 12345 - 4;
  }
  if (type == at::kByte) t.abs_();
  return t.to(type);
}

// The same numbers, lying otherwise.
enum class Lay { kDense, kStrided, kTransposed, kOffset };
constexpr Lay kLays[] = {Lay::kDense, Lay::kStrided, Lay::kTransposed,
                         Lay::kOffset};
Tensor Laid(const Tensor& t, Lay lay) {
  const std::int64_t n = t.size(0), m = t.size(1);
  Tensor view;
  switch (lay) {
    case Lay::kDense:
      return t.clone();
    case Lay::kStrided:
      view = at::zeros({n, 2 * m}, t.options()).slice(1, 0, 2 * m, 2);
      break;
    case Lay::kTransposed:
      view = at::zeros({m, n}, t.options()).t();
      break;
    case Lay::kOffset:
      view = at::zeros({n + 2, m}, t.options()).slice(0, 1, n + 1);
      break;
  }
  view.copy_(t);
  return view;
}

// One op in a table: letters are T tensor, M mask, S scalar, 0 to 9 an integer,
// h 0.5, m -0.5, q 0.3.
struct OpCase {
  const char* op;
  const char* arguments;
  bool for_integers;
};

const OpCase kFloatOps[] = {
    {"aten::add.Tensor", "TTS", true},
    {"aten::add.Tensor", "TT1", true},
    {"aten::add.Scalar", "TSS", true},
    {"aten::sub.Tensor", "TTS", true},
    {"aten::sub.Scalar", "TSS", true},
    {"aten::rsub.Tensor", "TTS", true},
    {"aten::rsub.Scalar", "TSS", true},
    {"aten::mul.Tensor", "TT", true},
    {"aten::mul.Scalar", "TS", true},
    {"aten::div.Tensor", "TT", true},
    {"aten::div.Scalar", "TS", true},
    {"aten::addcmul", "TTTS", false},
    {"aten::addcmul", "TTT1", false},
    {"aten::addcdiv", "TTTS", false},
    {"aten::lerp.Scalar", "TTS", false},
    {"aten::lerp.Scalar", "TTh", false},
    {"aten::lerp.Tensor", "TTT", false},
    {"aten::neg", "T", true},
    {"aten::abs", "T", true},
    {"aten::sign", "T", true},
    {"aten::sgn", "T", true},
    {"aten::reciprocal", "T", true},
    {"aten::sqrt", "T", true},
    {"aten::rsqrt", "T", true},
    {"aten::floor", "T", false},
    {"aten::ceil", "T", false},
    {"aten::trunc", "T", false},
    {"aten::round", "T", false},
    {"aten::relu", "T", true},
    {"aten::clamp", "TmS", false},
    {"aten::clamp", "T03", true},
    {"aten::clamp", "TNS", true},
    {"aten::clamp", "TSN", true},
    {"aten::clamp_min", "T0", true},
    {"aten::clamp_max", "T0", true},
    {"aten::hardtanh", "Tm1", false},
    {"aten::where.self", "MTT", true},
    {"aten::masked_fill.Scalar", "TMS", true},
    {"aten::leaky_relu", "TS", false},
    {"aten::threshold", "TSS", true},
    {"aten::threshold_backward", "TTS", true},
    {"aten::threshold_backward", "TT0", true},
    {"aten::tanh_backward", "TT", false},
    {"aten::sigmoid_backward", "TT", false},
    {"aten::eq.Tensor", "TT", true},
    {"aten::eq.Scalar", "T1", true},
    {"aten::ne.Tensor", "TT", true},
    {"aten::ne.Scalar", "TS", true},
    {"aten::lt.Tensor", "TT", true},
    {"aten::lt.Scalar", "TS", true},
    {"aten::le.Tensor", "TT", true},
    {"aten::le.Scalar", "TS", true},
    {"aten::gt.Tensor", "TT", true},
    {"aten::gt.Scalar", "TS", true},
    {"aten::ge.Tensor", "TT", true},
    {"aten::ge.Scalar", "TS", true},
    {"aten::logical_not", "T", true},
    {"aten::logical_and", "TT", true},
    {"aten::logical_or", "TT", true},
    {"aten::logical_xor", "TT", true},
    {"aten::isnan", "T", true},
    {"aten::exp", "T", true},
    {"aten::expm1", "T", true},
    {"aten::log", "T", true},
    {"aten::log2", "T", true},
    {"aten::log10", "T", true},
    {"aten::log1p", "T", true},
    {"aten::sin", "T", true},
    {"aten::cos", "T", true},
    {"aten::tan", "T", true},
    {"aten::asin", "T", true},
    {"aten::acos", "T", true},
    {"aten::atan", "T", true},
    {"aten::tanh", "T", true},
    {"aten::erf", "T", true},
    {"aten::erfc", "T", true},
};
const OpCase kIntegerOps[] = {
    {"aten::maximum", "TT", true},
    {"aten::minimum", "TT", true},
    {"aten::bitwise_and.Tensor", "TT", true},
    {"aten::bitwise_or.Tensor", "TT", true},
    {"aten::bitwise_xor.Tensor", "TT", true},
};

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
        stack.emplace_back(
            Laid(Numbers(sizes, at::kChar, ++seed).gt(0), lay));
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
      default:
        stack.emplace_back(std::int64_t{*a - '0'});
    }
  }
  return stack;
}

// The op on its own: lengths around eager's vectors, all ways to lie.
void CheckOp(const OpCase& c, at::ScalarType type) {
  SCOPED_TRACE(absl::StrCat(c.op, " ", c.arguments, " ", at::toString(type)));
  for (const Lay lay : kLays) {
    for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
             {1, 1}, {1, 7}, {3, 5}, {2, 16}, {1, 70}, {7, 33}}) {
      RecordedGroup group;
      try {
        group.Call(c.op, ArgumentsOf(c, type, sizes, lay, 17));
      } catch (const c10::Error& error) {
        ADD_FAILURE() << error.what_without_backtrace();
        return;
      }
      const std::string difference = group.Compare();
      EXPECT_EQ(difference, "") << "lay " << static_cast<int>(lay);
      if (!difference.empty()) return;
    }
  }
}

TEST(LowerAgainstEagerTest, FloatOps) {
  for (const OpCase& c : kFloatOps) {
    CheckOp(c, at::kFloat);
    CheckOp(c, at::kDouble);
  }
}

TEST(LowerAgainstEagerTest, IntegerOps) {
  for (const auto type : {at::kLong, at::kInt, at::kByte}) {
    for (const OpCase& c : kFloatOps) {
      if (c.for_integers) CheckOp(c, type);
    }
    for (const OpCase& c : kIntegerOps) CheckOp(c, type);
  }
}

TEST(LowerAgainstEagerTest, KeySetsOfViewsThatAreNotTheirBytes) {
  EXPECT_EQ(c10::DispatchKeySet(c10::DispatchKey::Negative).raw_repr(),
            lower::kNegativeKey);
  EXPECT_EQ(c10::DispatchKeySet(c10::DispatchKey::Conjugate).raw_repr(),
            lower::kConjugateKey);
}

TEST(LowerAgainstEagerTest, AChain) {
  const Tensor x = Numbers({5, 7}, at::kFloat, 1), w = Numbers({5, 7}, at::kFloat, 2);
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

}  // namespace
}  // namespace tjit::testing

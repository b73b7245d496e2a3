// The interpreter of compiler/ir against at::, op by op, in every dtype that
// the op is for: bit for bit but for NaNs, and for what is exact by nature
// only where it is; functions and sums to a tolerance.
#include <ATen/ATen.h>

#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/ir/interpreter.h"
#include "compiler/ir/ir_text.h"
#include "compiler/ir/verifier.h"
#include "gtest/gtest.h"
#include "tests/runtime/against_eager/ir_eager_cases.h"

namespace tjit::ir {
namespace {

using at::Scalar;
using at::Tensor;

// Vectors and a tail, for eager's f32 on AVX-512; whole vectors of f16 and
// bf16, for whose tails eager rounds otherwise (see ops.def).
constexpr std::int64_t kElements = 77, kWholeVectors = 192;

at::ScalarType TorchType(DType dtype) {
  return static_cast<at::ScalarType>(InfoOf(dtype).number);
}

// Random numbers, and those at which formulas differ.
Tensor Numbers(DType dtype, std::uint64_t seed, std::int64_t n,
               bool with_special = true) {
  std::mt19937_64 random(seed);
  const double inf = std::numeric_limits<double>::infinity();
  const double special[] = {0,         -0.0, 1,    -1, inf,   -inf,
                            inf - inf, 0.5,  -0.5, 2,  1e-40, 1e30};
  Tensor t = at::empty({n}, at::kDouble);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint64_t pick = random();
    t.data_ptr<double>()[i] =
        InfoOf(dtype).kind != DTypeKind::kFloat
            ? static_cast<double>(pick % 200) - (dtype == DType::kU8 ? 0 : 99)
        : with_special && pick % 4 == 0
            ? special[pick / 4 % std::size(special)]
            : static_cast<double>(pick % 100000) / 12345 - 4;
  }
  return t.to(TorchType(dtype));
}

Buffer BufferOf(const Tensor& t) {
  return {static_cast<char*>(t.data_ptr()), t.numel()};
}

// Runs one function over flat externals; its one result has a given type.
Tensor RunText(const std::string& text, const Tensors& in, Tensor out) {
  Function f;
  std::string error;
  EXPECT_TRUE(Parse(text, &f, &error)) << error << "\n" << text;
  const std::vector<std::string> violations = Verify(f);
  EXPECT_TRUE(violations.empty()) << violations[0] << "\n" << text;
  if (!error.empty() || !violations.empty()) return out;
  RunArguments arguments;
  for (const Tensor& t : in) arguments.externals.push_back(BufferOf(t));
  arguments.returns = {BufferOf(out)};
  EXPECT_EQ(Interpret(f, arguments), "") << text;
  return out;
}

std::string Externals(const std::vector<DType>& dtypes, std::int64_t n) {
  std::string text = "func f() {\n";
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    absl::StrAppend(&text, "external %", i, ": ", Name(dtypes[i]), "[", n,
                    "]\n");
  }
  return text;
}

// The first element that differs, or "".
std::string Difference(const Tensor& is, const Tensor& should) {
  if (is.scalar_type() != should.scalar_type() ||
      is.numel() != should.numel()) {
    return absl::StrCat("eager gives ", at::toString(should.scalar_type()));
  }
  const Tensor flat = should.contiguous();
  const auto item = static_cast<std::size_t>(is.element_size());
  const Tensor a = is.flatten(), b = flat.flatten();
  for (std::int64_t i = 0; i < is.numel(); ++i) {
    const char* x = static_cast<const char*>(a.data_ptr());
    const char* y = static_cast<const char*>(b.data_ptr());
    const auto at = static_cast<std::size_t>(i) * item;
    if (std::memcmp(x + at, y + at, item) == 0) continue;
    const auto u = a[i].item().toDouble(), v = b[i].item().toDouble();
    if (u != u && v != v) continue;
    return absl::StrCat("element ", i, " is ", u, ", eager ", v);
  }
  return "";
}

// Where eager rounds otherwise: sigmoid_backward of f16 after each of its three
// operations (lowering makes three ops of it). The number after a half is here
// the one after it as a float.
bool IsOtherwise(const std::string& op, DType dtype) {
  if (op == "nextafter") return InfoOf(dtype).bytes == 2;
  return op == "sigmoid_backward" && dtype == DType::kF16;
}

// Of NaN they give one thing or another, by the place.
bool DependsOnNaN(Op op) {
  return op >= Op::kEluBackward && op <= Op::kShrinkBackward;
}

// What the interpreter and eager give for one case.
std::pair<Tensor, Tensor> Both(const Case& c, Op op, DType dtype,
                               std::int64_t n, bool with_special = true) {
  const DTypeKind kind = InfoOf(dtype).kind;
  const bool is_float = kind == DTypeKind::kFloat;
  const Scalar scalar = is_float                   ? Scalar(0.3)
                        : kind == DTypeKind::kBool ? Scalar(true)
                                                   : Scalar(3);
  const char* const written = is_float                   ? "0.3"
                              : kind == DTypeKind::kBool ? "true"
                                                         : "3";
  Tensors in;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    in.push_back(Numbers(dtype, seed, n, with_special));
  }
  in.push_back(Numbers(DType::kI8, 4, n).gt(0));
  const DType result =
      InfoOf(op).type_rule == TypeRule::kCompare ? DType::kBool : dtype;
  const std::string text = absl::StrCat(
      Externals({dtype, dtype, dtype, DType::kBool}, n), "%4 = ", c.op, " ",
      Name(result), "[", n, "] ",
      absl::StrReplaceAll(c.operands, {{"S", written}}), "\nreturn %4\n}\n");
  return {RunText(text, in, at::empty({n}, TorchType(result))),
          c.eager(in, scalar)};
}

template <class F>
void ForEach(const std::vector<Case>& cases, F check) {
  for (const Case& c : cases) {
    Op op = Op::kCount;
    ASSERT_TRUE(OpByName(c.op, &op)) << c.op;
    for (int i = 0; i < kDTypeCount; ++i) {
      const DType dtype = static_cast<DType>(i);
      if (!Contains(InfoOf(op).dtypes, dtype) || IsOtherwise(c.op, dtype)) {
        continue;
      }
      SCOPED_TRACE(absl::StrCat(c.op, " ", c.operands, " ", Name(dtype)));
      try {
        check(c, op, dtype);
      } catch (const c10::Error& error) {
        ADD_FAILURE() << error.what_without_backtrace();
      }
    }
  }
}

TEST(IrAgainstEagerTest, ArithmeticHasEagersBits) {
  ForEach(BitExactCases(), [](const Case& c, Op op, DType dtype) {
    const std::int64_t n = IsHalf(dtype) ? kWholeVectors : kElements;
    const auto [is, should] = Both(c, op, dtype, n);
    EXPECT_EQ(Difference(is, should), "");
  });
}

// Only add and sub with alpha differ in the tail, by a rounding of the product.
TEST(IrAgainstEagerTest, TailsOfHalfTypes) {
  ForEach(BitExactCases(), [](const Case& c, Op op, DType dtype) {
    if (!IsHalf(dtype)) return;
    const auto [is, should] = Both(c, op, dtype, kElements);
    if (op != Op::kAdd && op != Op::kSub) {
      EXPECT_EQ(Difference(is, should), "");
      return;
    }
    const Tensor a = Numbers(dtype, 1, kElements);
    const Tensor product =
        at::mul(Numbers(dtype, 2, kElements), at::full({}, 0.3, a.options()));
    const Tensor twice =
        op == Op::kAdd ? at::add(a, product) : at::sub(a, product);
    const std::int64_t body = kElements / 64 * 64;
    EXPECT_EQ(Difference(is.slice(0, 0, body), should.slice(0, 0, body)), "");
    EXPECT_EQ(Difference(twice.slice(0, body), should.slice(0, body)), "");
  });
}

TEST(IrAgainstEagerTest, FunctionsAreNearEagers) {
  ForEach(FunctionCases(), [](const Case& c, Op op, DType dtype) {
    // Eager's gelu is far off at infinities, and its slope, the difference of
    // two numbers near 1, is good to some 1e-6 (by erf through 7.1.26 of
    // Abramowitz and Stegun).
    const bool is_gelu = absl::StartsWith(c.op, "gelu");
    // The exponent of a half's power is a half in eager's vectors.
    const bool with_special = op != Op::kFmod && op != Op::kRemainder &&
                              op != Op::kPowScalar && !is_gelu &&
                              !DependsOnNaN(op);
    const auto [is, should] = Both(c, op, dtype, kElements, with_special);
    const double tolerance = dtype == DType::kF64   ? 1e-13
                             : dtype == DType::kF32 ? 1e-5
                             : dtype == DType::kF16 ? 1e-3
                                                    : 1e-2;
    const double floor = is_gelu ? 4e-6 : 1e-7;
    EXPECT_TRUE(at::allclose(is, should, tolerance, floor, true))
        << is << should;
  });
}

TEST(IrAgainstEagerTest, EveryPointwiseOpIsHere) {
  std::set<std::string> listed;
  for (const Case& c : BitExactCases()) listed.insert(c.op);
  for (const Case& c : FunctionCases()) listed.insert(c.op);
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& info = InfoOf(static_cast<Op>(i));
    if (info.family != Family::kPointwise) continue;
    EXPECT_EQ(listed.count(info.name), 1u) << info.name;
  }
}

TEST(IrAgainstEagerTest, CastsHaveEagersBits) {
  for (int i = 0; i < kDTypeCount; ++i) {
    for (int j = 0; j < kDTypeCount; ++j) {
      const DType from = static_cast<DType>(i), to = static_cast<DType>(j);
      const Tensor x = Numbers(from, 5, kElements);
      const std::string text =
          absl::StrCat(Externals({from}, kElements), "%1 = to ", Name(to), "[",
                       kElements, "] %0\nreturn %1\n}\n");
      EXPECT_EQ(
          Difference(RunText(text, {x}, at::empty({kElements}, TorchType(to))),
                     x.to(TorchType(to))),
          "")
          << Name(from) << " to " << Name(to);
    }
  }
}

struct ReduceCase {
  const char* op;
  const char* rest;  // behind the operand
  bool is_exact;     // for small integers
  std::function<Tensor(const Tensor&)> eager;
};

TEST(IrAgainstEagerTest, ReductionsAndRows) {
  const ReduceCase cases[] = {
      {"sum", "", true, [](const Tensor& x) { return at::sum(x, {1}); }},
      {"prod", "", true, [](const Tensor& x) { return at::prod(x, 1); }},
      {"mean", "", true, [](const Tensor& x) { return at::mean(x, {1}); }},
      {"var", ", 1", false, [](const Tensor& x) { return at::var(x, {1}); }},
      {"std", ", 1", false, [](const Tensor& x) { return at::std(x, {1}); }},
      {"welford_mean", "", false,
       [](const Tensor& x) { return at::mean(x, {1}); }},
      {"norm_mean", "", true, [](const Tensor& x) { return at::mean(x, {1}); }},
      {"sum_sequential", ", 1", true,
       [](const Tensor& x) { return at::sum(x, {1}); }},
      {"dot", ", %0[3,7,5], 2", true,
       [](const Tensor& x) { return at::sum(x * x, {1}); }},
      {"norm_rstd", ", 0.5", false,
       [](const Tensor& x) {
         const auto rows = x.transpose(1, 2).contiguous();
         const auto all = at::native_layer_norm(rows, {7}, {}, {}, 0.5);
         return std::get<2>(all).squeeze(-1).to(x.scalar_type());
       }},
      {"norm_rstd_wide", ", 0.5", false,
       [](const Tensor& x) {
         const auto rows = x.transpose(1, 2).contiguous();
         const auto all = at::native_group_norm(rows, {}, {}, 3, 5, 7, 5, 0.5);
         return std::get<2>(all).to(x.scalar_type());
       }},
      {"norm", ", 2", false,
       [](const Tensor& x) { return at::norm(x, 2, {1}, false); }},
      {"norm", ", 3", false,
       [](const Tensor& x) { return at::norm(x, 3, {1}, false); }},
      {"norm", ", 0", true,
       [](const Tensor& x) { return at::norm(x, 0, {1}, false); }},
      {"norm", ", -inf", true,
       [](const Tensor& x) {
         return at::norm(x, -std::numeric_limits<double>::infinity(), {1},
                         false);
       }},
      {"amax", "", true, [](const Tensor& x) { return at::amax(x, {1}); }},
      {"amin", "", true, [](const Tensor& x) { return at::amin(x, {1}); }},
      {"sum_of_halves", "", true,
       [](const Tensor& x) { return at::sum(x, {1}); }},
      {"amax_of_halves", "", true,
       [](const Tensor& x) { return at::amax(x, {1}); }},
      {"amin_of_halves", "", true,
       [](const Tensor& x) { return at::amin(x, {1}); }},
      {"any", "", true, [](const Tensor& x) { return at::any(x, 1); }},
      {"all", "", true, [](const Tensor& x) { return at::all(x, 1); }},
      {"argmax", "", true, [](const Tensor& x) { return at::argmax(x, 1); }},
      {"argmin", "", true, [](const Tensor& x) { return at::argmin(x, 1); }},
      {"softmax", "", false, [](const Tensor& x) { return at::softmax(x, 1); }},
      {"log_softmax", "", false,
       [](const Tensor& x) { return at::log_softmax(x, 1); }},
      {"cumsum", "", true, [](const Tensor& x) { return at::cumsum(x, 1); }},
  };
  const DType dtypes[] = {DType::kF32, DType::kF64, DType::kBF16,
                          DType::kI32, DType::kU8,  DType::kBool};
  for (const ReduceCase& c : cases) {
    Op op = Op::kCount;
    ASSERT_TRUE(OpByName(c.op, &op));
    for (const DType dtype : dtypes) {
      if (!Contains(InfoOf(op).dtypes, dtype)) continue;
      const Tensor x = at::randint(0, 4, {3, 7, 5}).to(TorchType(dtype));
      const Tensor should = c.eager(x);
      DType result = DType::kF32;
      ASSERT_TRUE(DTypeByNumber(static_cast<std::uint8_t>(should.scalar_type()),
                                &result))
          << c.op;
      // Eager's any and all of u8 are u8.
      if (InfoOf(op).type_rule == TypeRule::kCompare) result = DType::kBool;
      const std::string text = absl::StrCat(
          Externals({dtype}, x.numel()), "%1 = ", c.op, " ", Name(result),
          InfoOf(op).family == Family::kRow ? "[3,7,5]" : "[3,5]", " %0[3,7,5]",
          c.rest, " dims=[1]\nreturn %1\n}\n");
      const Tensor is =
          RunText(text, {x}, at::empty(should.sizes(), TorchType(result)));
      if (c.is_exact && dtype != DType::kBF16) {
        EXPECT_EQ(Difference(is, should.to(TorchType(result))), "") << text;
      } else {
        EXPECT_TRUE(
            at::allclose(is, should, dtype == DType::kBF16 ? 1e-2 : 1e-5, 1e-6))
            << text << is << should;
      }
    }
  }
}

}  // namespace
}  // namespace tjit::ir

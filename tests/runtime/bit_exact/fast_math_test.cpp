// Fast math: each function of the table stays within its bound, has eager's
// zeros, infinities and NaN, and docs/fast-math.md says so. Takes each 769th
// f32 number; with EVERY_NUMBER=1 in the environment all of them.
#include "runtime/bit_exact/fast_math_functions.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/bit_exact/math_probe.h"
#include "support/env.h"
#include "tests/runtime/bit_exact/known_verdicts.h"

namespace tjit::runtime {
namespace {

using ir::DType;
using ir::Op;
using Reference = double (*)(double x);

// In doubles, without cancellation.
double Sigmoid(double x) {
  const double e = std::exp(-std::fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

struct Function {
  Op op;
  Reference exact;
  at::Tensor (*eager)(const at::Tensor& x);
};
const Function kFunctions[] = {
    {Op::kExp, std::exp, at::exp},
    {Op::kExpm1, std::expm1, at::expm1},
    {Op::kTanh, std::tanh, at::tanh},
    {Op::kSigmoid, Sigmoid, at::sigmoid},
    {Op::kSilu, [](double x) { return x * Sigmoid(x); }, at::silu},
    {Op::kSqrt, std::sqrt, at::sqrt},
    {Op::kLog, std::log, at::log},
    {Op::kLog2, std::log2, at::log2},
    {Op::kLog10, std::log10, at::log10},
    {Op::kSin, std::sin, at::sin},
    {Op::kCos, std::cos, at::cos},
    {Op::kTan, std::tan, at::tan},
    {Op::kAsin, std::asin, at::asin},
    {Op::kAcos, std::acos, at::acos},
    {Op::kAtan, std::atan, at::atan},
};

const Function& FunctionOf(Op op) {
  return *std::find_if(std::begin(kFunctions), std::end(kFunctions),
                       [&](const Function& f) { return f.op == op; });
}

__attribute__((target("avx512f"))) void Run16(void* f, const float* x,
                                              float* y) {
  _mm512_storeu_ps(y,
                   reinterpret_cast<__m512 (*)(__m512)>(f)(_mm512_loadu_ps(x)));
}
__attribute__((target("avx2"))) void Run8(void* f, const float* x, float* y) {
  _mm256_storeu_ps(y,
                   reinterpret_cast<__m256 (*)(__m256)>(f)(_mm256_loadu_ps(x)));
}

constexpr int kMost = 16;

// Of `kMost` numbers, in vectors of so many.
void Compute(const FastFunction& f, int lanes, const float* x, float* y) {
  if (f.from == FastFrom::kInstruction) {
    for (int i = 0; i < kMost; ++i) y[i] = std::sqrt(x[i]);
    return;
  }
  void* const address = FindFastFunction(f, lanes)->address;
  for (int i = 0; i < kMost; i += lanes) {
    (lanes == 16 ? Run16 : Run8)(address, x + i, y + i);
  }
}

// The distance in units of the last place of `exact`; an infinity is the number
// behind the largest.
double Ulps(float got, double exact) {
  const auto as_number = [](double x) {
    return std::isinf(x) ? std::copysign(std::ldexp(1.0, 128), x) : x;
  };
  const float nearest = static_cast<float>(exact);
  if (std::isnan(got) && std::isnan(exact)) return 0;
  if (std::isnan(got) || std::isnan(exact)) return HUGE_VAL;
  if (std::isinf(got) && std::isinf(nearest) && got == nearest) return 0;
  const double bounded = std::isinf(exact) ? as_number(exact) : exact;
  int exponent = 0;
  std::frexp(bounded, &exponent);
  return std::fabs(as_number(got) - bounded) /
         std::ldexp(1.0, std::clamp(exponent - 24, -149, 104));
}

std::uint64_t StepOfNumbers() {
  return std::getenv("EVERY_NUMBER") != nullptr ? 1 : 769;
}

struct Largest {
  double ulps = 0;
  float at = 0;
};

Largest LargestDifference(const FastFunction& f, int lanes,
                          std::uint64_t step) {
  const Reference exact = FunctionOf(f.op).exact;
  Largest largest;
  float x[kMost], y[kMost];
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32;) {
    for (float& number : x) {
      number = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      bits += step;
    }
    Compute(f, lanes, x, y);
    for (int i = 0; i < kMost; ++i) {
      const double ulps = Ulps(y[i], exact(x[i]));
      if (ulps > largest.ulps) largest = {ulps, x[i]};
    }
  }
  return largest;
}

std::vector<int> LanesHere() {
  if (FastLanes() == 16) return {16, 8};
  return FastLanes() == 8 ? std::vector<int>{8} : std::vector<int>{};
}

TEST(FastMathTest, NothingIsFartherThanItsBound) {
  for (const FastFunction& f : kFastFunctions) {
    for (const int lanes : LanesHere()) {
      const Largest largest = LargestDifference(f, lanes, StepOfNumbers());
      EXPECT_LE(largest.ulps, f.bound_ulp)
          << InfoOf(f.op).name << " of " << largest.at << ", " << lanes
          << " lanes";
      std::printf("%-8s %2d lanes: %.3f of %g ULP at %.9g\n", InfoOf(f.op).name,
                  lanes, largest.ulps, f.bound_ulp,
                  static_cast<double>(largest.at));
    }
  }
}

// Where a program with the same formulas found them farthest of all numbers.
TEST(FastMathTest, TheWorstNumbersOfAll) {
  constexpr struct {
    Op op;
    float at;
    double ulps;
  } kWorst[] = {
      {Op::kExp, -5.85590219F, 1.0417},  {Op::kExpm1, 0.385741323F, 1.5543},
      {Op::kTanh, 4.50509071F, 2.4984},  {Op::kSigmoid, -4.1572938F, 2.4019},
      {Op::kSilu, -7.62205172F, 3.1925},
  };
  for (const auto& worst : kWorst) {
    const FastFunction& f = *std::find_if(
        std::begin(kFastFunctions), std::end(kFastFunctions),
        [&](const FastFunction& other) { return other.op == worst.op; });
    EXPECT_LE(worst.ulps, f.bound_ulp) << InfoOf(f.op).name;
    for (const int lanes : LanesHere()) {
      float x[kMost], y[kMost];
      std::fill_n(x, kMost, worst.at);
      Compute(f, lanes, x, y);
      EXPECT_NEAR(Ulps(y[0], FunctionOf(f.op).exact(worst.at)), worst.ulps,
                  1e-4)
          << InfoOf(f.op).name << ", " << lanes << " lanes";
    }
  }
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kSpecial[kMost] = {0,
                                   -0.0F,
                                   kInf,
                                   -kInf,
                                   std::numeric_limits<float>::quiet_NaN(),
                                   -std::numeric_limits<float>::quiet_NaN(),
                                   std::numeric_limits<float>::max(),
                                   std::numeric_limits<float>::lowest(),
                                   1,
                                   -1,
                                   2,
                                   -2,
                                   150,
                                   -150,
                                   std::numeric_limits<float>::denorm_min(),
                                   -std::numeric_limits<float>::denorm_min()};

// Zeros with their sign, infinities, NaN.
bool IsSpecial(float x) { return x == 0 || !std::isfinite(x); }

TEST(FastMathTest, SpecialResultsAreEagers) {
  for (const FastFunction& f : kFastFunctions) {
    const at::Tensor eager = FunctionOf(f.op).eager(at::from_blob(
        const_cast<float*>(kSpecial), {kMost}, at::TensorOptions(at::kFloat)));
    const float* const want = eager.const_data_ptr<float>();
    for (const int lanes : LanesHere()) {
      float y[kMost];
      Compute(f, lanes, kSpecial, y);
      for (int i = 0; i < kMost; ++i) {
        if (!IsSpecial(want[i])) continue;
        if (std::isnan(want[i])) {
          EXPECT_TRUE(std::isnan(y[i]))
              << InfoOf(f.op).name << " of " << kSpecial[i] << ": " << y[i];
          continue;
        }
        EXPECT_EQ(std::bit_cast<std::uint32_t>(y[i]),
                  std::bit_cast<std::uint32_t>(want[i]))
            << InfoOf(f.op).name << " of " << kSpecial[i] << ": " << y[i]
            << ", eager " << want[i];
      }
    }
  }
}

TEST(FastMathTest, OnlyTheTablesFunctionsDiffer) {
  MathProbe exact;
  FastMath fast(&exact);
  KnownVerdicts notes;
  fast.UseVerdicts(&notes);
  const TjitMath* const tanh = fast.For(Op::kTanh, DType::kF32);
  ASSERT_NE(tanh, nullptr);
  EXPECT_EQ(tanh->mode, 1) << "its name in keys is not that of another one";
  EXPECT_NE(tanh->address, exact.For(Op::kTanh, DType::kF32)->address);
  EXPECT_EQ(fast.For(Op::kTanh, DType::kF32), tanh);
  EXPECT_EQ(fast.For(Op::kTanh, DType::kF64),
            exact.For(Op::kTanh, DType::kF64));
  EXPECT_EQ(fast.For(Op::kTanh, DType::kBF16),
            exact.For(Op::kTanh, DType::kBF16));
  EXPECT_EQ(fast.For(Op::kErf, DType::kF32), exact.For(Op::kErf, DType::kF32));
  EXPECT_EQ(fast.ForAxis(Op::kSum, Axis::kAll, DType::kF32),
            exact.ForAxis(Op::kSum, Axis::kAll, DType::kF32));
  EXPECT_TRUE(fast.IsFunction(Op::kTanh, DType::kF32));
  EXPECT_FALSE(fast.IsFunction(Op::kAdd, DType::kF32));
}

// An instruction, unless eager's root is some in the loop as well.
TEST(FastMathTest, TheRootIsNeverACall) {
  MathProbe exact;
  FastMath fast(&exact);
  const TjitMath* const root = exact.For(Op::kSqrt, DType::kF32);
  const bool has_steps = root != nullptr && IsSqrtInCode(root->kind);
  EXPECT_EQ(fast.IsFunction(Op::kSqrt, DType::kF32), has_steps);
  EXPECT_EQ(fast.IsFunction(Op::kSqrt, DType::kF64),
            exact.IsFunction(Op::kSqrt, DType::kF64));
}

std::string Number(float x) {
  if (std::isnan(x)) return "NaN";
  return absl::StrFormat("%g", x);
}

std::string From(const FastFunction& f) {
  if (f.from == FastFrom::kInstruction) return "the processor's instruction";
  if (f.from == FastFrom::kFormula) return "own polynomial";
  return absl::StrFormat("SLEEF's %sf16%s", f.sleef, f.accuracy);
}

std::string Table() {
  std::string table =
      "| function | type | computed by | bound | largest measured | of 0 | of "
      "-0 | of inf | of -inf |\n|---|---|---|---|---|---|---|---|---|\n";
  for (const FastFunction& f : kFastFunctions) {
    const Largest largest = LargestDifference(f, 16, 769);
    float y[kMost];
    Compute(f, 16, kSpecial, y);
    table += absl::StrFormat("| %s | f32 | %s | %g | %.2f, of %.9g |",
                             InfoOf(f.op).name, From(f), f.bound_ulp,
                             largest.ulps, largest.at);
    for (int i = 0; i < 4; ++i)
      absl::StrAppend(&table, " ", Number(y[i]), " |");
    absl::StrAppend(&table, "\n");
  }
  return table;
}

constexpr char kBegin[] =
    "<!-- written by tests/runtime/bit_exact/fast_math_test.cpp -->\n";

TEST(FastMathTest, TheDocumentSaysIt) {
  if (FastLanes() != 16) GTEST_SKIP() << "the document is of AVX-512";
  const std::string table = Table();
  std::ifstream file(TJIT_FAST_MATH_DOCUMENT);
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = document.find(kBegin);
  ASSERT_NE(begin, std::string::npos) << TJIT_FAST_MATH_DOCUMENT;
  const std::size_t from = begin + std::size(kBegin) - 1;
  if (Environment().bless) {
    std::ofstream(TJIT_FAST_MATH_DOCUMENT) << document.substr(0, from) << table;
    return;
  }
  EXPECT_EQ(document.substr(from), table) << "TJIT_BLESS=1 writes it";
}

}  // namespace
}  // namespace tjit::runtime

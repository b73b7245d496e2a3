// tanh, exp and log of f32 without MKL's functions for most numbers: eager's
// bits for numbers of all sizes.
//
// All 2^32 numbers, a minute each, when asked for:
//   TJIT_ALL_NUMBERS=1 vml_exact_test --gtest_filter='*All*'
#include "compiler/functions/vml_exact.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/bit_exact/math_probe.h"
#include "runtime/bit_exact/vml_replacement.h"
#include "tests/runtime/bit_exact/all_floats.h"
#include "tests/runtime/bit_exact/known_verdicts.h"

namespace tjit::runtime {
namespace {

using at::Tensor;
using ir::DType;
using ir::Op;

struct Function {
  const char* name;
  Op op;
  Tensor (*eager)(const Tensor& x);
};

const Function kFunctions[] = {{"tanh", Op::kTanh, at::tanh},
                               {"exp", Op::kExp, at::exp},
                               {"log", Op::kLog, at::log}};

// As kernels call it.
Tensor Of(const Function& f, const Tensor& x) {
  Tensor out = at::empty_like(x);
  VmlExactFor(f.op)(static_cast<int>(x.numel()), x.const_data_ptr<float>(),
                    out.mutable_data_ptr<float>(), kVmlMode);
  return out;
}

// So many floats before and behind each, of both signs.
Tensor Around(const std::vector<float>& numbers, std::int64_t each) {
  std::vector<Tensor> all;
  for (const float number : numbers) {
    const std::int64_t bits = std::bit_cast<std::uint32_t>(std::abs(number));
    all.push_back(FromBits(bits - each, 2 * each, 1));
  }
  const Tensor positive = at::cat(all);
  return at::cat({positive, -positive});
}

// As MathProbe sees it, what a wrong answer of the probe would break.
class VmlExactTest : public ::testing::TestWithParam<Function> {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    at::manual_seed(3);
    std::string difference;
    if (VmlExactFor(f_.op) == nullptr ||
        !VmlExactPays(f_.op, f_.eager, Check::kAll, &difference)) {
      GTEST_SKIP() << "needs AVX-512, and MKL as it is on AMD's processors: "
                   << difference;
    }
  }

  const Function& f_ = GetParam();
};

INSTANTIATE_TEST_SUITE_P(Functions, VmlExactTest,
                         ::testing::ValuesIn(kFunctions),
                         [](const auto& info) { return info.param.name; });

// Where this fails, no skip hides that they are used nowhere.
TEST(VmlExactProbeTest, TheyAreEagersOnAmdsProcessorsWithAvx512) {
  const bool is_such = __builtin_cpu_is("amd") != 0 && HasVmlExact();
  for (const Function& f : kFunctions) {
    for (const Check check : {Check::kAll, Check::kSpot}) {
      std::string difference;
      EXPECT_TRUE(!is_such || VmlExactPays(f.op, f.eager, check, &difference))
          << f.name << " " << difference;
    }
  }
  EXPECT_EQ(VmlExactFor(Op::kSin), nullptr);
}

// On a processor whose VML rounds otherwise, here always to the nearest.
TEST_P(VmlExactTest, OtherBitsAreFoundOut) {
  Tensor (*other)(const Tensor&) = [](const Tensor& x) {
    return at::exp(x.to(at::kDouble)).to(at::kFloat);
  };
  if (f_.op == Op::kLog) {
    other = [](const Tensor& x) {
      return at::log(x.to(at::kDouble)).to(at::kFloat);
    };
  }
  if (f_.op == Op::kTanh) {
    other = [](const Tensor& x) {
      return at::tanh(x.to(at::kDouble)).to(at::kFloat);
    };
  }
  std::string difference;
  for (const Check check : {Check::kAll, Check::kSpot}) {
    difference.clear();
    EXPECT_FALSE(VmlExactPays(f_.op, other, check, &difference));
    EXPECT_NE(difference.find(" eager makes "), std::string::npos);
  }
}

TEST_P(VmlExactTest, OfAllSizes) {
  const Tensor x = FromBits(77, 1 << 21, 2047);
  EXPECT_EQ(Differences(Of(f_, x), f_.eager(x)), 0);
}

TEST_P(VmlExactTest, OfOrdinaryNumbersFewAreByVml) {
  static std::int64_t by_vml;
  const auto counting = [](int n, const float* x, float* out, std::int64_t) {
    by_vml += n;
    std::copy_n(x, n, out);
  };
  const bool is_log = f_.op == Op::kLog;
  const auto numbers = f_.op == Op::kTanh ? TanhExact
                       : is_log           ? LogExact
                                          : ExpExact;
  const Tensor x = is_log ? at::randn({1 << 20}).abs() : at::randn({1 << 20});
  Tensor out = at::empty_like(x);
  const auto count = [&](const Tensor& in) {
    by_vml = 0;
    EXPECT_EQ(numbers(in.numel(), in.const_data_ptr<float>(), counting, 0,
                      out.mutable_data_ptr<float>()),
              by_vml);
    return by_vml;
  };
  EXPECT_LT(count(x), x.numel() / 40);
  EXPECT_EQ(count(at::ones_like(x)), 0);
  EXPECT_EQ(count(at::zeros_like(x)), is_log ? x.numel() : 0);
  EXPECT_EQ(count(at::full_like(x, -1e9)), is_log ? x.numel() : 0);
}

// Of tanh: those nearest to the middle of two floats for which MKL does not
// round to the nearest; where one formula ends and another begins.
TEST_P(VmlExactTest, WhereItIsNarrow) {
  const Tensor x = Around({0x1.00df44p+0F,
                           0x1.410d3ep+0F,
                           0x1.bc2524p+0F,
                           0x1.c0d14cp+0F,
                           0x1.0038bap+1F,
                           0x1.40239cp+1F,
                           0x1.25dc84p+2F,
                           0x1.67a1aap+2F,
                           0x1.003958p-4F,
                           0x1.d74f82p-5F,
                           0x1.7fffaep-4F,
                           0x1.009aap-1F,
                           0x1.4049c8p-1F,
                           0x1.8048fcp-1F,
                           0x1.c00abp-1F,
                           0x1.0042aap-2F,
                           9.0F,
                           9.0109F,
                           9.5F,
                           10.0F,
                           87.3F,
                           87.3366F,
                           88.7228F,
                           104.0F,
                           103.9721F,
                           0x1p-4F,
                           0x1p-12F,
                           0x1p-13F,
                           0x1p-126F,
                           0x1p-140F,
                           0x1p-148F,
                           0x1p127F,
                           0x1.555556p-1F,
                           0x1.555556p+0F,
                           0x1.555556p+1F,
                           0x1.555556p126F,
                           1.0F},
                          3000);
  EXPECT_EQ(Differences(Of(f_, x), f_.eager(x)), 0);
}

// Around the middle of two steps of exp's formula, and all powers of two.
TEST_P(VmlExactTest, AroundSteps) {
  std::vector<float> numbers;
  for (int n = 1; n < 2 * 16200; n += 2) {
    numbers.push_back(static_cast<float>(n * 0.002707606173999));
  }
  for (int e = -148; e < 128; ++e) numbers.push_back(std::ldexp(1.0F, e));
  const Tensor x = Around(numbers, 24);
  EXPECT_EQ(Differences(Of(f_, x), f_.eager(x)), 0);
}

TEST_P(VmlExactTest, InPlaceAndOfAllLengths) {
  std::vector<std::int64_t> lengths = {511,  512,  513,  1023, 1024,
                                       1025, 1040, 2047, 2049, 4192};
  for (std::int64_t n = 1; n <= 70; ++n) lengths.push_back(n);
  for (const bool is_special : {false, true}) {
    Tensor all = at::randn({4192});
    if (is_special) all = FromBits(5, 4192, 1000003);  // a third for VML
    const Tensor eager = f_.eager(all);
    for (const std::int64_t n : lengths) {
      Tensor x = all.clone();
      auto* const data = x.mutable_data_ptr<float>();
      VmlExactFor(f_.op)(static_cast<int>(n), data, data, kVmlMode);
      EXPECT_EQ(Differences(x.slice(0, 0, n), eager.slice(0, 0, n)), 0) << n;
      EXPECT_EQ(Differences(x.slice(0, n), all.slice(0, n)), 0) << n;
    }
  }
}

TEST_P(VmlExactTest, WhatTheProbeFinds) {
  KnownVerdicts verdicts;
  MathProbe probe, next;
  probe.UseVerdicts(&verdicts);
  const TjitMath* const found = probe.For(f_.op, DType::kF32);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->kind, kTjitMathVmlF32);
  EXPECT_EQ(found->address, reinterpret_cast<void*>(VmlExactFor(f_.op)));
  EXPECT_EQ(verdicts.answers.at(std::string("math ") + f_.name + " f32"),
            kVmlExact);
  next.UseVerdicts(&verdicts);
  EXPECT_EQ(next.For(f_.op, DType::kF32)->address, found->address);
  EXPECT_EQ(verdicts.added, 1);
  EXPECT_NE(probe.For(f_.op, DType::kF64)->address, found->address);
}

// MXCSR: denormals as zeros, rounding up and down. Eager has the same mode.
TEST_P(VmlExactTest, InUnusualArithmetic) {
  const Tensor x = at::cat({FromBits(77, 1 << 16, 65521), at::randn({4096})});
  Tensor ours = at::empty_like(x), eager = at::empty_like(x);
  const unsigned usual = _mm_getcsr();
  for (const unsigned mode : {0x8040U, 0x4000U, 0x2000U}) {
    _mm_setcsr(usual | mode);
    VmlExactFor(f_.op)(static_cast<int>(x.numel()), x.const_data_ptr<float>(),
                       ours.mutable_data_ptr<float>(), kVmlMode);
    eager.copy_(f_.eager(x));
    _mm_setcsr(usual);
    EXPECT_EQ(Differences(ours, eager), 0) << mode;
  }
}

TEST_P(VmlExactTest, AllNumbers) {
  if (std::getenv("TJIT_ALL_NUMBERS") == nullptr) {
    GTEST_SKIP() << "a minute: with TJIT_ALL_NUMBERS=1";
  }
  const auto ours = [&](const Tensor& x) { return Of(f_, x); };
  EXPECT_EQ(DifferencesOfAll(ours, f_.eager), 0);
}

}  // namespace
}  // namespace tjit::runtime

// sigmoid of f32 by own code: eager's bits for numbers of all sizes.
//
// All 2^32 numbers, a minute, when asked for:
//   TJIT_ALL_NUMBERS=1 sigmoid_exact_test --gtest_filter='*All*'
#include "compiler/functions/sigmoid_exact.h"

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

#include "runtime/bit_exact/position_dependent.h"
#include "runtime/bit_exact/sigmoid_kernel.h"
#include "tests/runtime/bit_exact/all_floats.h"
#include "tests/runtime/bit_exact/known_verdicts.h"

namespace tjit::runtime {
namespace {

using at::Tensor;
using ir::DType;
using ir::Op;

Tensor Of(const Tensor& x) {
  Tensor out = at::empty_like(x);
  SigmoidExact(x.numel(), x.const_data_ptr<float>(),
               out.mutable_data_ptr<float>());
  return out;
}

class SigmoidExactTest : public ::testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    at::manual_seed(3);
    if (!SigmoidExactHasBitsOfEager(Check::kAll)) {
      GTEST_SKIP() << "needs AVX-512, and a libtorch with SLEEF's expf";
    }
  }
};

// Where this fails, no skip hides that the own code is used nowhere.
TEST(SigmoidNumbersProbeTest, AreEagersWhereTheProcessorHasAvx512) {
  for (const Check check : {Check::kAll, Check::kSpot}) {
    EXPECT_TRUE(!HasSigmoidExact() || SigmoidExactHasBitsOfEager(check));
  }
}

TEST_F(SigmoidExactTest, OfAllSizes) {
  const Tensor x = FromBits(77, 1 << 22, 1023);
  EXPECT_EQ(Differences(Of(x), at::sigmoid(x)), 0);
}

// Where exp takes the next power of two, is 0 or infinite, or denormal.
TEST_F(SigmoidExactTest, AroundSteps) {
  std::vector<Tensor> all;
  std::vector<float> numbers = {100.0F, 104.0F, 103.97F, 88.7228F, 87.3366F};
  for (int n = 1; n < 310; ++n) {
    numbers.push_back(static_cast<float>(n * 0.34657359027997264));
  }
  for (int e = -148; e < 128; ++e) numbers.push_back(std::ldexp(1.0F, e));
  for (const float number : numbers) {
    const std::int64_t bits = std::bit_cast<std::uint32_t>(number);
    all.push_back(FromBits(bits - 500, 1000, 1));
  }
  const Tensor positive = at::cat(all);
  const Tensor x = at::cat({positive, -positive});
  // Whole vectors of eager's alone.
  ASSERT_EQ(x.numel() % 32, 0);
  EXPECT_EQ(Differences(Of(x), at::sigmoid(x)), 0);
}

TEST_F(SigmoidExactTest, InPlaceAndOfAllLengths) {
  const Tensor all = at::randn({4096});
  const Tensor eager = at::sigmoid(all);
  std::vector<std::int64_t> lengths = {511, 512, 513, 1025, 4096};
  for (std::int64_t n = 1; n <= 70; ++n) lengths.push_back(n);
  for (const std::int64_t n : lengths) {
    const Tensor x = all.clone();
    auto* const data = x.mutable_data_ptr<float>();
    SigmoidExact(n, data, data);
    EXPECT_EQ(Differences(x.slice(0, 0, n), eager.slice(0, 0, n)), 0) << n;
    EXPECT_EQ(Differences(x.slice(0, n), all.slice(0, n)), 0) << n;
  }
}

class SigmoidTilesTest : public SigmoidExactTest {
 protected:
  // Differences of a tensor in tiles of so many elements.
  static std::int64_t InTiles(const TjitMath& f, const Tensor& x,
                              std::int64_t step) {
    Tensor out = at::empty_like(x);
    for (std::int64_t i = 0; i < x.numel(); i += step) {
      reinterpret_cast<TjitPositionFn>(f.address)(
          std::min(step, x.numel() - i), x.const_data_ptr<float>() + i, nullptr,
          out.mutable_data_ptr<float>() + i, i, x.numel(), 0, 0, 0);
    }
    return Differences(out, at::sigmoid(x));
  }
};

// Behind the last whole block eager has another function: with other bits.
TEST_F(SigmoidTilesTest, TheOwnCodeIsFoundAndHasEagersTail) {
  KnownVerdicts verdicts;
  const auto f = FindPositionDependent(Op::kSigmoid, DType::kF32, &verdicts);
  ASSERT_TRUE(f);
  EXPECT_EQ(verdicts.answers.at("tile sigmoid f32"), "first");
  EXPECT_NE(f->address,
            FindPositionDependent(Op::kSigmoid, DType::kF64)->address);
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const std::int64_t n : {1, 16, 31, 48, 100, 2021, 40062}) {
      const Tensor x = at::randn({n}).mul_(8);
      for (const std::int64_t step : {std::int64_t{37}, std::int64_t{512}, n}) {
        EXPECT_EQ(InTiles(*f, x, step), 0) << n << " " << step;
      }
    }
  }
  at::set_num_threads(1);
}

// MXCSR: denormals as zeros, rounding up.
TEST_F(SigmoidTilesTest, InUnusualArithmetic) {
  const auto f = FindPositionDependent(Op::kSigmoid, DType::kF32);
  ASSERT_TRUE(f);
  const Tensor x = at::cat({FromBits(77, 1 << 16, 65521), at::randn({4096})});
  const unsigned usual = _mm_getcsr();
  for (const unsigned mode : {0x8040U, 0x4000U}) {
    _mm_setcsr(usual | mode);
    const std::int64_t differences = InTiles(*f, x, 512);
    _mm_setcsr(usual);
    EXPECT_EQ(differences, 0) << mode;
  }
}

TEST_F(SigmoidExactTest, AllNumbers) {
  if (std::getenv("TJIT_ALL_NUMBERS") == nullptr) {
    GTEST_SKIP() << "a minute: with TJIT_ALL_NUMBERS=1";
  }
  const auto eager = [](const Tensor& x) { return at::sigmoid(x); };
  EXPECT_EQ(DifferencesOfAll(Of, eager), 0);
}

}  // namespace
}  // namespace tjit::runtime

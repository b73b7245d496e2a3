// Powers with small whole exponents: eager's bits for numbers of all sizes,
// without eager's function for most of them.
//
// All 2^32 numbers, some five minutes, when asked for:
//   TJIT_ALL_NUMBERS=1 pow_exact_test --gtest_filter='*All*'
#include "compiler/functions/pow_exact.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/bit_exact/position_dependent.h"
#include "runtime/bit_exact/pow_kernel.h"
#include "tests/runtime/bit_exact/all_floats.h"

namespace tjit::runtime {
namespace {

using at::Tensor;

struct Power {
  Tensor numbers;
  std::int64_t by_powf;
};

Power Of(const Tensor& x, int exponent) {
  Power power = {at::empty_like(x), 0};
  power.by_powf =
      PowExact(x.numel(), x.const_data_ptr<float>(), exponent, PowfOfLibtorch(),
               power.numbers.mutable_data_ptr<float>());
  return power;
}

// As QuickPowKernel() sees it, what a wrong answer of the probe would break.
class PowExactTest : public ::testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    if (!PowExactHasBitsOfEager(Check::kAll)) {
      GTEST_SKIP() << "needs AVX-512, and a libtorch with SLEEF's powf";
    }
  }
};

// Where this fails, no skip hides that the quick form is used nowhere.
TEST(PowExactProbeTest, AreEagersWhereTheProcessorHasAvx512) {
  const bool is_wide =
      at::get_cpu_capability().find("AVX512") != std::string::npos;
  for (const Check check : {Check::kAll, Check::kSpot}) {
    EXPECT_TRUE(!is_wide || PowExactHasBitsOfEager(check));
  }
  EXPECT_TRUE(IsPowExponent(4));
  for (const double exponent :
       {2.0, 4.5, -2.0, 9.0, 0.0, 1e300, std::nan("")}) {
    EXPECT_FALSE(IsPowExponent(exponent)) << exponent;
  }
}

TEST_F(PowExactTest, OfAllSizes) {
  constexpr std::int64_t kCount = 1 << 21;
  for (const int exponent : kPowExponents) {
    const Tensor x = FromBits(exponent & 2047, kCount, 2047);
    EXPECT_EQ(Differences(Of(x, exponent).numbers, at::pow(x, exponent)), 0)
        << exponent;
  }
}

TEST_F(PowExactTest, OfOrdinaryNumbersFewAreByPowf) {
  at::manual_seed(3);
  constexpr std::int64_t kCount = 1 << 20;
  const Tensor x = at::rand({kCount});
  for (const int exponent : kPowExponents) {
    const Power power = Of(x, exponent);
    EXPECT_EQ(Differences(power.numbers, at::pow(x, exponent)), 0) << exponent;
    EXPECT_LT(power.by_powf, kCount / 20) << exponent;
    EXPECT_GT(power.by_powf, kCount / 50) << exponent;
  }
  // Zeros and ones, as masks have them, and what relu leaves.
  EXPECT_EQ(Of(at::ones({kCount}), 4).by_powf, 0);
  EXPECT_EQ(Of(at::zeros({kCount}), 5).by_powf, 0);
}

// Around each power of two, where the spacing of floats changes, in the powers
// too; and around the least and the greatest size that is not left to powf.
TEST_F(PowExactTest, AroundPowersOfTwo) {
  constexpr std::int64_t kEach = 80;
  for (const int exponent : kPowExponents) {
    std::vector<Tensor> all;
    for (int halves = -150 * 2; halves <= 128 * 2; ++halves) {
      const double root = std::exp2(halves / 2.0 / exponent);
      const std::int64_t bits =
          std::bit_cast<std::uint32_t>(static_cast<float>(root));
      all.push_back(FromBits(bits - kEach / 2, kEach, 1));
    }
    const Tensor positive = at::cat(all);
    const Tensor x = at::cat({positive, -positive});
    EXPECT_EQ(Differences(Of(x, exponent).numbers, at::pow(x, exponent)), 0)
        << exponent;
  }
}

TEST_F(PowExactTest, InPlaceAndOfAllLengths) {
  at::manual_seed(4);
  const Tensor all = at::randn({4200});
  for (const int exponent : kPowExponents) {
    const Tensor eager = at::pow(all.slice(0, 0, 4192), exponent);
    for (const std::int64_t n : {1, 15, 16, 17, 31, 100, 2047, 2049, 4192}) {
      const Tensor x = all.slice(0, 0, n).clone();
      auto* const data = x.mutable_data_ptr<float>();
      PowExact(n, data, exponent, PowfOfLibtorch(), data);
      EXPECT_EQ(Differences(x, eager.slice(0, 0, n)), 0)
          << exponent << " " << n;
    }
  }
}

// The answers of a probe.
class Answers : public Verdicts {
 public:
  std::optional<std::string> Find(const std::string& question) override {
    const auto found = all.find(question);
    return found == all.end() ? std::nullopt : std::optional(found->second);
  }
  void Add(const std::string& question, const std::string& answer) override {
    all[question] = answer;
  }
  std::map<std::string, std::string> all;
};

class PowTilesTest : public PowExactTest {
 protected:
  // Differences of a tensor in tiles of so many elements.
  static std::int64_t InTiles(const TjitMath& f, const Tensor& x, int exponent,
                              std::int64_t step) {
    Tensor out = at::empty_like(x);
    for (std::int64_t i = 0; i < x.numel(); i += step) {
      reinterpret_cast<TjitPositionFn>(f.address)(
          std::min(step, x.numel() - i), x.const_data_ptr<float>() + i, nullptr,
          out.mutable_data_ptr<float>() + i, i, x.numel(), exponent, 0, 0);
    }
    return Differences(out, at::pow(x, exponent));
  }
};

// Behind the last whole block eager has another function: with other bits.
TEST_F(PowTilesTest, TheQuickFormIsFoundAndHasEagersTail) {
  Answers answers;
  const auto f =
      FindPositionDependent(ir::Op::kPowScalar, ir::DType::kF32, &answers);
  ASSERT_TRUE(f);
  EXPECT_EQ(answers.all.at("tile pow_scalar f32"), "first");
  EXPECT_NE(
      f->address,
      FindPositionDependent(ir::Op::kPowScalar, ir::DType::kF64)->address);
  at::manual_seed(5);
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (const int exponent : kPowExponents) {
      for (const std::int64_t n : {1, 16, 31, 48, 100, 2021, 40062}) {
        const Tensor x = at::randn({n});
        for (const std::int64_t step :
             {std::int64_t{37}, std::int64_t{1024}, n}) {
          EXPECT_EQ(InTiles(*f, x, exponent, step), 0)
              << exponent << " " << n << " " << step;
        }
      }
    }
  }
  at::set_num_threads(1);
}

// MXCSR: denormals as zeros, rounding up, where powf rounds otherwise.
TEST_F(PowTilesTest, InUnusualArithmetic) {
  const auto f = FindPositionDependent(ir::Op::kPowScalar, ir::DType::kF32);
  ASSERT_TRUE(f);
  const Tensor x = FromBits(77, 1 << 16, 65521);
  const unsigned usual = _mm_getcsr();
  for (const unsigned mode : {0x8040U, 0x4000U}) {
    for (const int exponent : kPowExponents) {
      _mm_setcsr(usual | mode);
      const std::int64_t differences = InTiles(*f, x, exponent, 1024);
      _mm_setcsr(usual);
      EXPECT_EQ(differences, 0) << exponent << " " << mode;
    }
  }
}

TEST_F(PowExactTest, AllNumbers) {
  if (std::getenv("TJIT_ALL_NUMBERS") == nullptr) {
    GTEST_SKIP() << "five minutes: with TJIT_ALL_NUMBERS=1";
  }
  constexpr std::int64_t kCount = 1 << 20, kAll = std::int64_t{1} << 32;
  for (const int exponent : kPowExponents) {
    std::int64_t differences = 0, by_powf = 0;
    for (std::int64_t first = 0; first < kAll; first += kCount) {
      const Tensor x = FromBits(first, kCount, 1);
      const Power power = Of(x, exponent);
      const Tensor eager = at::pow(x, exponent);
      by_powf += power.by_powf;
      if (std::memcmp(eager.const_data_ptr(), power.numbers.const_data_ptr(),
                      eager.nbytes()) != 0) {
        differences += Differences(power.numbers, eager);
      }
    }
    EXPECT_EQ(differences, 0) << exponent;
    RecordProperty("by_powf", std::to_string(by_powf));
  }
}

}  // namespace
}  // namespace tjit::runtime

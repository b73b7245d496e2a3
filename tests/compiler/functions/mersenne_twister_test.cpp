// Numbers of the Mersenne Twister against those that std::mt19937 draws one by
// one: all functions, counts around the generator's words, a generator that
// goes on where the last function left it.
#include "compiler/functions/mersenne_twister.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <sstream>
#include <vector>

namespace tjit {
namespace {

constexpr std::uint32_t kSeed = 5489;
constexpr int kCounts[] = {1, 2, 7, 311, 312, 313, 512, 623, 624, 625, 5000, 3};

class MersenneTwisterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasMersenneTwister()) GTEST_SKIP() << "not for this processor";
    words_[0] = kSeed;
    for (std::uint32_t i = 1; i < kTwisterWords; ++i) {
      words_[i] = 1812433253U * (words_[i - 1] ^ words_[i - 1] >> 30) + i;
    }
    twister_ = {words_, kTwisterWords};
  }
  // In [0, 1), as eager makes it of the engine's words.
  float Float() {
    return static_cast<float>(one_by_one_() & 0xffffff) * 0x1p-24F;
  }
  double Double() {
    const std::uint64_t high = one_by_one_(), low = one_by_one_();
    return static_cast<double>((high << 32 | low) & ((1ULL << 53) - 1)) *
           0x1p-53;
  }

  std::uint32_t words_[kTwisterWords];
  MersenneTwister twister_;
  std::mt19937 one_by_one_{kSeed};
};

TEST_F(MersenneTwisterTest, UniformFloats) {
  for (const bool is_fused : {false, true}) {
    for (const int count : kCounts) {
      constexpr float kFirst = -0.3F, kLast = 1.4F, kRange = kLast - kFirst;
      std::vector<float> numbers(static_cast<std::size_t>(count));
      DrawUniform(&twister_, {kFirst, kLast, is_fused}, numbers.data(), count);
      for (const float number : numbers) {
        const float u = Float();
        const volatile float scaled = u * kRange;
        ASSERT_EQ(number,
                  is_fused ? std::fma(u, kRange, kFirst) : scaled + kFirst);
      }
    }
  }
}

TEST_F(MersenneTwisterTest, UniformDoubles) {
  for (const bool is_fused : {false, true}) {
    for (const int count : kCounts) {
      constexpr double kFirst = -0.3, kLast = 1.4, kRange = kLast - kFirst;
      std::vector<double> numbers(static_cast<std::size_t>(count));
      DrawUniform(&twister_, {kFirst, kLast, is_fused}, numbers.data(), count);
      for (const double number : numbers) {
        const double u = Double();
        const volatile double scaled = u * kRange;
        ASSERT_EQ(number,
                  is_fused ? std::fma(u, kRange, kFirst) : scaled + kFirst);
      }
    }
  }
}

// Of a range as narrow as a few units every other number is rounded up to its
// end.
TEST_F(MersenneTwisterTest, TheEndOfARangeIsNoNumberOfIt) {
  constexpr float kFirst = 1e6F, kLast = 1e6F + 0.125F;
  std::vector<float> numbers(1000);
  DrawUniform(&twister_, {kFirst, kLast}, numbers.data(), 1000);
  int moved = 0;
  for (const float number : numbers) {
    const volatile float scaled = Float() * (kLast - kFirst);
    const float x = scaled + kFirst;
    moved += x == kLast ? 1 : 0;
    ASSERT_EQ(number, x == kLast ? kFirst : x);
  }
  EXPECT_GT(moved, 100);
}

// One word less, so that the two of a number lie in two rounds.
TEST_F(MersenneTwisterTest, OneWordMoreOrLess) {
  float number = 0;
  DrawUniform(&twister_, {}, &number, 1);
  EXPECT_EQ(number, Float());
  std::vector<double> numbers(2000);
  DrawUniform(&twister_, {}, numbers.data(), 2000);
  for (const double x : numbers) ASSERT_EQ(x, Double());
}

TEST_F(MersenneTwisterTest, BernoulliOfAllTypes) {
  for (const double p : {0.0, 0x1p-60, 0.1, 0.5, 1 - 0x1p-53, 1.0}) {
    for (const int count : kCounts) {
      const auto size = static_cast<std::size_t>(count);
      std::vector<float> floats(size);
      std::vector<double> doubles(size);
      const auto bools = std::make_unique<bool[]>(size);
      DrawBernoulli(&twister_, p, floats.data(), count);
      DrawBernoulli(&twister_, p, doubles.data(), count);
      DrawBernoulli(&twister_, p, bools.get(), count);
      for (const float x : floats) ASSERT_EQ(x, Double() < p ? 1 : 0) << p;
      for (const double x : doubles) ASSERT_EQ(x, Double() < p ? 1 : 0) << p;
      for (std::size_t i = 0; i < size; ++i) {
        ASSERT_EQ(bools[i], Double() < p) << p;
      }
    }
  }
}

TEST_F(MersenneTwisterTest, TheGeneratorIsLeftAsBySingleDraws) {
  std::vector<float> numbers(1000);
  DrawUniform(&twister_, {}, numbers.data(), 1000);
  for (int i = 0; i < 1000; ++i) Float();
  std::stringstream state;
  state << one_by_one_;  // the words, and how many are used up
  std::uint32_t word = 0;
  for (const std::uint32_t mine : words_) {
    state >> word;
    ASSERT_EQ(mine, word);
  }
  state >> word;
  EXPECT_EQ(twister_.next, static_cast<int>(word));
}

}  // namespace
}  // namespace tjit

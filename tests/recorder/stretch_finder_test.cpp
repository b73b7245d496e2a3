#include "recorder/stretch_finder.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace tjit {
namespace {

constexpr std::uint64_t kStep = 100, kLength = 60;

// A stream whose steps of kStep tokens begin with kLength that repeat.
class StretchFinderTest : public ::testing::Test {
 protected:
  // A run over step `i` has broken. By chance it began `before` its stretch or
  // went on `behind` it, or equalled the tokens of `period` ago.
  StretchFinder::Stretch Observe(std::uint64_t i, std::uint64_t before = 0,
                                 std::uint64_t behind = 0,
                                 std::uint64_t period = kStep) {
    const std::uint64_t begin = i * kStep;
    return finder_.Observe(
        begin - before, begin + kLength + behind, period,
        [](std::uint64_t from, std::uint64_t to, std::uint64_t distance) {
          if (distance % kStep != 0) return false;
          for (std::uint64_t n = from; n < to; ++n) {
            if (n % kStep >= kLength) return false;
          }
          return true;
        });
  }
  StretchFinder finder_;
};

TEST_F(StretchFinderTest, CountsHowOftenItCameInARow) {
  for (std::uint64_t i = 1; i < 20; ++i) {
    const StretchFinder::Stretch stretch = Observe(i);
    EXPECT_EQ(stretch.times, i + 1);
    EXPECT_EQ(stretch.begin, i * kStep);
    EXPECT_EQ(stretch.end, i * kStep + kLength);
    EXPECT_EQ(stretch.distance, kStep);
  }
}

TEST_F(StretchFinderTest, KeepsWhatAllRunsHaveInCommon) {
  Observe(1);
  EXPECT_EQ(Observe(2, 2, 5, 7 * kStep).times, 3u);
  EXPECT_EQ(Observe(3, 0, 1, 3 * kStep).times, 4u);
  const StretchFinder::Stretch stretch = Observe(4, 3);
  EXPECT_EQ(stretch.times, 5u);
  EXPECT_EQ(stretch.begin, 4 * kStep);
  EXPECT_EQ(stretch.end, 4 * kStep + kLength);
}

// Two runs may break in one step; the second is of a longer period.
TEST_F(StretchFinderTest, IsNotForgottenForOthers) {
  Observe(1);
  Observe(2);
  for (std::uint64_t i = 3; i < 12; ++i) {
    EXPECT_EQ(Observe(i).times, i + 1);
    EXPECT_EQ(Observe(i, 0, 2, 5 * kStep).times, 2u);
  }
}

TEST_F(StretchFinderTest, StepsInWhichNothingBrokeCount) {
  Observe(1);
  EXPECT_EQ(Observe(4).times, 5u);
}

TEST_F(StretchFinderTest, EndsWhereAnotherStreamBegins) {
  for (std::uint64_t i = 1; i < 6; ++i) Observe(i);
  const auto never = [](std::uint64_t, std::uint64_t, std::uint64_t) {
    return false;
  };
  const auto stretch = finder_.Observe(10'000, 10'090, 333, never);
  EXPECT_EQ(stretch.times, 2u);
  EXPECT_EQ(stretch.distance, 333u);
}

// The first steps of an optimizer do more than those behind them.
TEST_F(StretchFinderTest, GrowsWithWhatRepeatsLater) {
  const auto always = [](std::uint64_t, std::uint64_t, std::uint64_t) {
    return true;
  };
  finder_.Observe(100, 140, 100, always);
  const auto longer = finder_.Observe(195, 290, 100, always);
  EXPECT_EQ(longer.times, 2u);
  EXPECT_EQ(longer.end - longer.begin, 95u);
  EXPECT_EQ(finder_.Observe(295, 390, 100, always).times, 3u);
}

}  // namespace
}  // namespace tjit

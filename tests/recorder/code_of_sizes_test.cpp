// When sizes ask for code together, and what their turns say together.
#include "recorder/code_of_sizes.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "support/policy.h"

namespace tjit {
namespace {

constexpr std::size_t kSteps = 50;
constexpr std::uint64_t kFirstNs =
    policy::kCompileNs + policy::kCompileNsPerStep * kSteps;

TEST(CodeOfSizesTest, SizesPayTogether) {
  CodeOfSizes sizes;
  sizes.AddLibraryTime(kFirstNs);
  EXPECT_FALSE(sizes.HasPaid(kSteps));
  sizes.AddLibraryTime(1);  // of another size
  EXPECT_TRUE(sizes.HasPaid(kSteps));
}

TEST(CodeOfSizesTest, FurtherSizesPayLess) {
  CodeOfSizes sizes;
  sizes.AddLibraryTime(kFirstNs + 1);
  EXPECT_FALSE(sizes.has_asked());
  sizes.RecordAsked();
  EXPECT_TRUE(sizes.has_asked());
  EXPECT_FALSE(sizes.HasPaid(kSteps));
  sizes.AddLibraryTime(kFirstNs / policy::kPartOfOtherSizes + 1);
  EXPECT_TRUE(sizes.HasPaid(kSteps));
}

// Sizes that are gone before anything is known ask ever less.
TEST(CodeOfSizesTest, AskingInVainBacksOff) {
  CodeOfSizes sizes;
  std::uint64_t ns = 0;
  for (std::uint32_t i = 0; i < 8 * policy::kSizesPerDoubling; ++i) {
    while (!sizes.HasPaid(kSteps)) {
      sizes.AddLibraryTime(100'000);
      ns += 100'000;
    }
    sizes.RecordAsked();
  }
  EXPECT_GT(ns, 128 * kFirstNs / policy::kPartOfOtherSizes *
                    policy::kSizesPerDoubling);
}

// Trials of sizes that are gone soon cost more than they bring.
TEST(CodeOfSizesTest, SizesThatAreGoneMakeOthersWaitForTrials) {
  constexpr std::uint32_t kMost = 6144;
  CodeOfSizes sizes;
  for (std::uint32_t i = 0; i < policy::kSizesTriedInVain; ++i) {
    EXPECT_EQ(sizes.RunsBeforeTrials(kMost), policy::kRunsBeforeTrials);
    sizes.RecordTrialOfSize();
  }
  EXPECT_EQ(sizes.RunsBeforeTrials(kMost),
            policy::kRunsBeforeTrials * policy::kLookFactor);
  sizes.RecordStay();
  EXPECT_EQ(sizes.RunsBeforeTrials(kMost), policy::kRunsBeforeTrials);
  for (int i = 0; i < 20; ++i) sizes.RecordTrialOfSize();
  EXPECT_EQ(sizes.RunsBeforeTrials(kMost), kMost);
}

// Each verdict is told once.
TEST(CodeOfSizesTest, TurnsOfAllSizesCount) {
  CodeOfSizes sizes;
  for (int i = 1; i < policy::kCodeLeadOfSizes; ++i) {
    EXPECT_FALSE(sizes.AddTurn(1)) << i;
  }
  EXPECT_FALSE(sizes.AddTurn(0));
  EXPECT_TRUE(sizes.AddTurn(1));
  EXPECT_TRUE(sizes.pays());
  EXPECT_FALSE(sizes.AddTurn(1));
  EXPECT_FALSE(sizes.AddTurn(0));
  int told = 0;
  for (int i = 0; i < 3 * policy::kCodeLeadOfSizes; ++i) {
    told += sizes.AddTurn(-1) ? 1 : 0;
  }
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(sizes.pays());
}

TEST(CodeOfSizesTest, OneOfSomeSizesIsMeasuredAtOnce) {
  CodeOfSizes sizes;
  std::uint32_t measured = 0;
  for (std::uint32_t i = 0; i < 10 * policy::kSizesPerTrial; ++i) {
    sizes.RecordAsked();
    measured += sizes.HeadStart() == 0 ? 1 : 0;
  }
  EXPECT_EQ(measured, 10u);
}

TEST(CodeOfSizesTest, AfterAWaitInVainSomeSizesDoNotWait) {
  CodeOfSizes sizes;
  EXPECT_TRUE(sizes.MayWait());
  sizes.RecordWait(/*has_come=*/true);
  EXPECT_TRUE(sizes.MayWait());
  sizes.RecordWait(/*has_come=*/false);
  for (std::uint32_t i = 0; i < policy::kSizesAfterVainWait; ++i) {
    EXPECT_FALSE(sizes.MayWait());
  }
  EXPECT_TRUE(sizes.MayWait());
}

}  // namespace
}  // namespace tjit

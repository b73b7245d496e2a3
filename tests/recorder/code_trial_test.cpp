// Which code a trial keeps, on a machine that is quiet and on one that is not.
#include "recorder/code_trial.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>

#include "support/policy.h"
#include "support/pseudo_random.h"

namespace tjit {
namespace {

// Runs until the trial is over; the time of run i is cost(with code, i).
int RunTrial(CodeTrial* trial,
             const std::function<std::uint64_t(bool, int)>& cost) {
  int runs = 0;
  for (; !trial->is_over() && runs < 1000; ++runs) {
    const bool with_code = trial->wants_code();
    trial->Add(with_code, cost(with_code, runs));
  }
  return runs;
}

TEST(CodeTrialTest, FasterCodeStays) {
  CodeTrial trial(/*takes_turns=*/true);
  const int runs = RunTrial(&trial, [](bool with_code, int) {
    return with_code ? 900u : 1000u;
  });
  EXPECT_TRUE(trial.pays());
  EXPECT_EQ(trial.with_ns(), 900u);
  EXPECT_EQ(trial.without_ns(), 1000u);
  EXPECT_LT(runs, 20);
  EXPECT_TRUE(trial.wants_code());
}

// Code that is faster by less than the runs differ: it is never given up, and
// half as many runs decide as a comparison of medians takes.
TEST(CodeTrialTest, ASmallGainIsSeenSoon) {
  PseudoRandom random;
  int all_runs = 0;
  constexpr int kTrials = 200;
  for (int t = 0; t < kTrials; ++t) {
    CodeTrial trial(/*takes_turns=*/true);
    all_runs += RunTrial(&trial, [&](bool with_code, int) {
      return (with_code ? 930u : 1000u) + (random.Next() >> 33) % 100;
    });
    EXPECT_TRUE(trial.pays()) << t;
  }
  EXPECT_LT(all_runs / kTrials, 26);
}

// In three of ten runs it happens to be faster.
TEST(CodeTrialTest, LuckyRunsOfSlowerCodeDoNotDecide) {
  PseudoRandom random;
  int kept = 0;
  for (int t = 0; t < 200; ++t) {
    CodeTrial trial(/*takes_turns=*/true);
    RunTrial(&trial, [&](bool with_code, int) {
      if (!with_code) return 1000u;
      return (random.Next() >> 33) % 10 < 3 ? 900u : 1100u;
    });
    kept += trial.pays() ? 1 : 0;
  }
  EXPECT_LE(kept, 30);
}

TEST(CodeTrialTest, SlowerCodeGoesAfterThreeComparisons) {
  CodeTrial trial(/*takes_turns=*/true);
  const int runs = RunTrial(&trial, [](bool with_code, int) {
    return with_code ? 1000u : 1000u;
  });
  EXPECT_TRUE(trial.is_over());
  EXPECT_FALSE(trial.pays());
  EXPECT_GT(runs, 3 * 2 * 15);
  EXPECT_LT(runs, 120);
}

TEST(CodeTrialTest, AMachineThatSlowsDownSlowsBoth) {
  CodeTrial trial(/*takes_turns=*/true);
  for (int i = 0; i < 20; ++i) trial.Add(/*with_code=*/false, 1000);
  RunTrial(&trial, [](bool with_code, int) {
    return with_code ? 4500u : 5000u;
  });
  EXPECT_TRUE(trial.pays());
}

TEST(CodeTrialTest, OneUnluckyComparisonDoesNotDecide) {
  CodeTrial trial(/*takes_turns=*/true);
  RunTrial(&trial, [](bool with_code, int i) {
    return with_code ? (i < 40 ? 1100u : 900u) : 1000u;
  });
  EXPECT_TRUE(trial.is_over());
  EXPECT_TRUE(trial.pays());
}

TEST(CodeTrialTest, AHeadStartIsNoPartOfTheComparison) {
  CodeTrial trial(/*takes_turns=*/true);
  trial.Add(/*with_code=*/false, 900);
  trial.GiveHeadStart(policy::kCodeTrialHeadStart);
  for (int i = 0; i < 24; ++i) {
    EXPECT_TRUE(trial.wants_code()) << i;
    trial.Add(/*with_code=*/true, 10);  // as if it were fast
    EXPECT_FALSE(trial.is_over());
  }
  RunTrial(&trial, [](bool with_code, int) { return with_code ? 300u : 200u; });
  EXPECT_TRUE(trial.is_over());
  EXPECT_FALSE(trial.pays());
}

// The first run without the code is slow: it is compared with nothing.
TEST(CodeTrialTest, AHurriedTrialComparesNoColdRun) {
  CodeTrial trial(/*takes_turns=*/true);
  trial.Hurry();
  EXPECT_EQ(trial.Add(/*with_code=*/true, 100), 0);   // warms up
  EXPECT_EQ(trial.Add(/*with_code=*/false, 900), 0);  // cold
  EXPECT_EQ(trial.Add(/*with_code=*/true, 100), 0);
  EXPECT_EQ(trial.Add(/*with_code=*/false, 90), 0);
  EXPECT_EQ(trial.Add(/*with_code=*/true, 100), -1);
  EXPECT_EQ(trial.Add(/*with_code=*/false, 110), 0);
  EXPECT_EQ(trial.Add(/*with_code=*/true, 100), 1);
}

// Without turns the runs before are all that the code is compared with.
TEST(CodeTrialTest, AHurriedTrialWithoutTurnsKeepsTheRunsBefore) {
  CodeTrial trial(/*takes_turns=*/false);
  trial.Add(/*with_code=*/false, 1000);
  trial.Hurry();
  RunTrial(&trial, [](bool, int) { return 100u; });
  EXPECT_TRUE(trial.is_over());
  EXPECT_TRUE(trial.pays());
}

TEST(CodeTrialTest, WithoutTurnsEveryRunHasTheCode) {
  CodeTrial trial(/*takes_turns=*/false);
  trial.Add(/*with_code=*/false, 1000);
  int without = 0;
  RunTrial(&trial, [&](bool with_code, int) {
    without += with_code ? 0 : 1;
    return std::uint64_t{900};
  });
  EXPECT_EQ(without, 0);
  EXPECT_TRUE(trial.pays());
}

}  // namespace
}  // namespace tjit

#include "recorder/thread_trial.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tjit {
namespace {

using Phase = ThreadTrial::Phase;
constexpr std::uint64_t kSecond = 1'000'000'000;

// A thread that goes through its phases, some ops each, of which tjit replays
// a part; `slowdown` is what tjit makes of the time of an op.
class Thread {
 public:
  struct Stretch {
    OpId op = 1;
    double ns = 1000;   // of a call, eagerly
    int calls = 300;
    double slowdown = 1;
  };
  explicit Thread(std::vector<Stretch> stretches)
      : stretches_(std::move(stretches)) {}

  // Until so many ns of its clock are over, or the phase is that.
  void RunFor(std::uint64_t ns, Phase until = Phase::kIdle) {
    const double end = now_ + static_cast<double>(ns);
    while (now_ < end) {
      for (const Stretch& s : stretches_) {
        for (int i = 0; i < s.calls; ++i) {
          Call(s);
          if (until != Phase::kIdle && trial.phase() == until) return;
        }
      }
    }
  }
  void set_replayed(double share) { replayed_share_ = share; }
  void set_longest(std::int64_t ops) { longest_ = ops; }
  void set_paths_per_second(double paths) { paths_per_second_ = paths; }
  void set_slowdown(double slowdown) {
    for (Stretch& s : stretches_) s.slowdown = slowdown;
  }
  void set_noise(double deviation) { noise_ = deviation; }
  // Others take the processor for so long, in one call of a hundred.
  void set_interruption(double ns) { interruption_ = ns; }
  std::uint64_t now() const { return static_cast<std::uint64_t>(now_); }

  ThreadTrial trial;
  std::uint64_t alone_ns = 0;  // in which nothing was looked at

 private:
  std::int64_t paths() const {
    return static_cast<std::int64_t>(now_ * paths_per_second_ / kSecond);
  }

  void Call(const Stretch& s) {
    if (trial.learns()) {
      trial.Learn(s.op, now());
    } else if (trial.counts()) {
      trial.Count(s.op);
    }
    ++ops_;
    const bool is_alone = trial.is_blind();
    double ns = s.ns * (is_alone ? 1 : s.slowdown);
    ns *= std::max(0.1, 1 + noise_ * normal_(random_));
    now_ += ns;
    thread_ += ns;
    if (is_alone) alone_ns += static_cast<std::uint64_t>(ns);
    if (!is_alone) replayed_ += replayed_share_;
    if (interruption_ != 0 && random_() % 100 == 0) now_ += interruption_;
    if (++since_look_ < ThreadTrial::kOpsPerLook) return;
    since_look_ = 0;
    if (!trial.MayBeDue(now(), ops_, paths())) return;
    const ThreadTrial::Usage usage{
        now(),    static_cast<std::uint64_t>(thread_),
        ops_,     static_cast<std::int64_t>(replayed_),
        longest_, paths()};
    if (trial.IsDue(usage)) trial.Turn(usage);
  }

  std::vector<Stretch> stretches_;
  double replayed_share_ = 0.3, noise_ = 0, interruption_ = 0;
  double now_ = 1, thread_ = 1, replayed_ = 0;
  double paths_per_second_ = 0;
  std::int64_t ops_ = 0, longest_ = 0;
  std::uint32_t since_look_ = 0;
  std::mt19937_64 random_{1};
  std::normal_distribution<double> normal_;
};

TEST(ThreadTrialTest, AThreadThatLosesIsLeftAloneWithinTwoSeconds) {
  Thread thread({{.op = 1, .ns = 5000, .slowdown = 1.1}});
  thread.RunFor(2 * kSecond);
  EXPECT_EQ(thread.trial.phase(), Phase::kResting);
  EXPECT_EQ(thread.trial.lost(), 1);
  EXPECT_NEAR(thread.trial.loss(), 0.1, 0.01);
}

TEST(ThreadTrialTest, FivePercentAreALossInSpiteOfNoise) {
  Thread thread({{.op = 1, .ns = 3000, .slowdown = 1.05},
                 {.op = 2, .ns = 20000, .calls = 40, .slowdown = 1.05}});
  thread.set_noise(0.5);
  thread.RunFor(2 * kSecond);
  EXPECT_EQ(thread.trial.phase(), Phase::kResting);
  EXPECT_NEAR(thread.trial.loss(), 0.05, 0.02);
}

TEST(ThreadTrialTest, AThreadThatWinsIsNotDisturbedForLong) {
  Thread thread({{.op = 1, .ns = 5000, .slowdown = 0.7}});
  thread.RunFor(20 * kSecond);
  EXPECT_EQ(thread.trial.lost(), 0);
  EXPECT_EQ(thread.trial.phase(), Phase::kIdle);
  EXPECT_LT(thread.trial.loss(), -0.25);
  EXPECT_LE(thread.alone_ns, kSecond / 5);
}

TEST(ThreadTrialTest, NothingIsTriedWhereMostOpsAreReplayed) {
  Thread thread({{.op = 1, .ns = 5000, .slowdown = 1.1}});
  thread.set_replayed(0.9);
  thread.RunFor(20 * kSecond);
  EXPECT_EQ(thread.alone_ns, 0);
}

// Windows differ in what the program does in them: cheap ops for a while, then
// expensive ones. By ops alone a window of the latter would be a loss.
TEST(ThreadTrialTest, CallsAreWeighed) {
  const std::vector<Thread::Stretch> stretches = {
      {.op = 1, .ns = 2000, .calls = 17000},
      {.op = 2, .ns = 40000, .calls = 1100}};
  Thread fair(stretches);
  fair.RunFor(10 * kSecond);
  EXPECT_EQ(fair.trial.lost(), 0);
  EXPECT_NEAR(fair.trial.loss(), 0, 0.02);
}

// Other programs take the processor: that is not the thread's time.
TEST(ThreadTrialTest, ABusyMachineDecidesNothing) {
  Thread fair({{.op = 1, .ns = 5000, .slowdown = 1.0}});
  fair.set_interruption(2e6);
  fair.RunFor(10 * kSecond);
  EXPECT_EQ(fair.trial.lost(), 0);
  Thread losing({{.op = 1, .ns = 5000, .slowdown = 1.2}});
  losing.set_interruption(2e6);
  losing.RunFor(30 * kSecond);
  EXPECT_GE(losing.trial.lost(), 1);
}

TEST(ThreadTrialTest, ItIsTriedAgainAfterARestThatDoubles) {
  Thread thread({{.op = 1, .ns = 50000, .slowdown = 1.2}});
  thread.RunFor(100 * kSecond, Phase::kResting);
  EXPECT_EQ(thread.trial.rest_ns(), ThreadTrial::kRestNs);
  const std::uint64_t rests = thread.now();
  thread.RunFor(2000 * kSecond, Phase::kBlind);
  EXPECT_NEAR(static_cast<double>(thread.now() - rests),
              static_cast<double>(ThreadTrial::kRestNs), 0.1 * kSecond);
  thread.RunFor(2000 * kSecond, Phase::kResting);
  EXPECT_EQ(thread.trial.rest_ns(), 2 * ThreadTrial::kRestNs);
  thread.RunFor(2000 * kSecond);
  EXPECT_EQ(thread.trial.rest_ns(), ThreadTrial::kLongestRestNs);
}

// What is new since then wins: it is taken up again.
TEST(ThreadTrialTest, OneThatWinsLaterIsTakenUpAgain) {
  Thread thread({{.op = 1, .ns = 50000, .slowdown = 1.2}});
  thread.RunFor(8 * kSecond);
  ASSERT_EQ(thread.trial.phase(), Phase::kResting);
  Thread winning({{.op = 1, .ns = 50000, .slowdown = 0.8}});
  winning.trial = thread.trial;
  winning.RunFor(8 * kSecond + ThreadTrial::kRestNs);
  EXPECT_EQ(winning.trial.phase(), Phase::kIdle);
}

// It won, and then records one size after the other in vain.
TEST(ThreadTrialTest, WhatIsRecordedSinceMakesAVerdictOld) {
  Thread thread({{.op = 1, .ns = 5000, .slowdown = 0.9}});
  thread.RunFor(3 * kSecond);
  ASSERT_EQ(thread.trial.phase(), Phase::kIdle);
  ASSERT_LT(thread.trial.loss(), -0.05);
  thread.set_slowdown(1.3);
  thread.set_paths_per_second(30);
  thread.RunFor(3 * kSecond);
  EXPECT_EQ(thread.trial.phase(), Phase::kResting);
}

// Where tjit wins all the while, its trials come rarer and rarer.
TEST(ThreadTrialTest, OneThatGrowsAndWinsIsDisturbedRarely) {
  Thread thread({{.op = 1, .ns = 5000, .slowdown = 0.9}});
  thread.set_paths_per_second(30);
  thread.RunFor(100 * kSecond);
  EXPECT_EQ(thread.trial.lost(), 0);
  EXPECT_LT(thread.alone_ns, 4 * kSecond);
}

// A trial takes as long as it takes; what it disturbs stays a small part.
TEST(ThreadTrialTest, LongSequencesAreDisturbedRarely) {
  Thread thread({{.op = 1, .ns = 50000, .slowdown = 0.9}});
  thread.set_longest(10000);  // half a second
  thread.RunFor(1000 * kSecond);
  EXPECT_EQ(thread.trial.lost(), 0);
  EXPECT_GT(thread.alone_ns, 4 * kSecond);
  EXPECT_LT(thread.alone_ns, 50 * kSecond);
}

// Before a sequence would have been found there is nothing to judge.
TEST(ThreadTrialTest, SlowOpsHaveTime) {
  Thread thread({{.op = 1, .ns = 1e6, .slowdown = 1.1}});
  thread.RunFor(60 * kSecond);
  EXPECT_EQ(thread.alone_ns, 0);
}

// An op that came in no window that weighed counts as much as others do.
TEST(ThreadTrialTest, OpsThatComeLaterHaveTheMeanWeight) {
  std::vector<Thread::Stretch> stretches = {
      {.op = 1, .ns = 5000, .calls = 15000, .slowdown = 1.1},
      {.op = 7, .ns = 5000, .calls = 15000, .slowdown = 1.1}};
  Thread thread(stretches);
  thread.RunFor(3 * kSecond);
  EXPECT_EQ(thread.trial.phase(), Phase::kResting);
  EXPECT_NEAR(thread.trial.loss(), 0.1, 0.02);
}

// For tests of everything else.
TEST(ThreadTrialTest, TurnsWithoutEnd) {
  ThreadTrial trial = ThreadTrial::OfTurns();
  int turns = 0, blind = 0;
  for (std::int64_t ops = 0; ops < 100000; ++ops) {
    const ThreadTrial::Usage usage{.ops = ops};
    if (!trial.MayBeDue(0, ops, 0) || !trial.IsDue(usage)) continue;
    trial.Turn(usage);
    ++turns;
    blind += trial.is_blind();
  }
  EXPECT_GT(turns, 500);
  EXPECT_GT(blind, turns / 4);
  EXPECT_LT(blind, turns - turns / 4);
  EXPECT_EQ(trial.lost(), 0);
}

}  // namespace
}  // namespace tjit

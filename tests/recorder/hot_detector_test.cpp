#include "recorder/hot_detector.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "support/policy.h"
#include "tests/recorder/counting_new.h"
#include "tests/recorder/stream.h"

namespace tjit {
namespace {

// The iteration that a capture would record: `period` ops of `ops` from where
// the candidate cuts.
std::vector<std::uint64_t> Iteration(const Stream& ops, const Found& found) {
  std::vector<std::uint64_t> tokens;
  const std::size_t begin = found.after + found.candidate.until_cut;
  for (std::size_t i = 0; i < found.candidate.period; ++i) {
    tokens.push_back(ops.at(begin + i).token);
  }
  return tokens;
}

std::vector<std::uint64_t> Tokens(const Stream& ops) {
  std::vector<std::uint64_t> tokens;
  for (const Op& op : ops) tokens.push_back(op.token);
  return tokens;
}

std::vector<std::uint64_t> BruteLeastRotation(std::vector<std::uint64_t> t) {
  std::vector<std::uint64_t> best = t;
  for (std::size_t i = 0; i < t.size(); ++i) {
    std::rotate(t.begin(), t.begin() + 1, t.end());
    best = std::min(best, t);
  }
  return best;
}

class HotDetectorTest : public ::testing::Test {
 protected:
  Stream Ops(std::size_t length, std::uint64_t kinds = 400) {
    return RandomOps(rng_, length, kinds);
  }
  std::mt19937_64 rng_{1};
  HotDetector detector_;
};

TEST_F(HotDetectorTest, ShortLoopClosesAtItsSecondEnd) {
  for (std::size_t length = 1; length < 24; ++length) {
    HotDetector detector;
    const Stream step = Ops(length, 1u << 20) + SyncPoint();
    const auto found = Feed(&detector, 2 * step);
    ASSERT_EQ(found.size(), 1u) << length;
    EXPECT_EQ(found[0].after, 2 * step.size());
    EXPECT_EQ(found[0].candidate.period, step.size());
    EXPECT_EQ(found[0].candidate.until_cut, 0u);
    EXPECT_TRUE(found[0].candidate.cut_at_boundary);
  }
}

TEST_F(HotDetectorTest, LongStepIsFoundAfterExactlyTwoPeriods) {
  for (const bool marked : {false, true}) {
    HotDetector detector;
    Stream step = Ops(9999) + SyncPoint();
    if (marked) step = AfterMarkStep(step);
    const auto found = Feed(&detector, 2 * step);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].after, 20000u);
    EXPECT_EQ(found[0].candidate.period, 10000u);
    EXPECT_EQ(found[0].candidate.until_cut, 0u);
    EXPECT_EQ(detector.period(), 10000u);
  }
}

TEST_F(HotDetectorTest, LongestPeriodIsFound) {
  const Stream step = Ops(32767) + SyncPoint();
  const auto found = Feed(&detector_, 2 * step);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].after, 65536u);
  EXPECT_EQ(found[0].candidate.period, 32768u);
  HotDetector other;
  EXPECT_TRUE(Feed(&other, 3 * (Ops(32768) + SyncPoint())).empty());
}

TEST_F(HotDetectorTest, StepWithoutBoundaryNeedsFourThousandTokens) {
  for (const std::size_t length : {3u, 100u, 2047u, 2048u, 10000u}) {
    HotDetector detector;
    const Stream step = Ops(length, 1u << 30);
    const int times = static_cast<int>(4096 / length) + 2;
    const auto found = Feed(&detector, times * step);
    ASSERT_FALSE(found.empty()) << length;
    const std::size_t enough = std::max<std::size_t>(2 * length, 4096);
    EXPECT_GE(found[0].after, enough);
    EXPECT_LT(found[0].after, enough + length);
    EXPECT_EQ(found[0].candidate.period, length);
    EXPECT_FALSE(found[0].candidate.cut_at_boundary);
  }
}

// Ten ops of 4 Mi elements take too long to wait for 4,096 of them.
TEST_F(HotDetectorTest, HeavyStepWithoutBoundaryNeedsItsElements) {
  const Stream step = Ops(10);
  constexpr std::int64_t kElements = std::int64_t{1} << 22;
  std::uint64_t found = 0;
  for (const Op& op : 64 * step) {
    const auto candidate =
        detector_.Observe(op.token, op.flags, 0, kElements);
    if (candidate.period != 0 && found == 0) found = detector_.position();
  }
  EXPECT_GE(found, (1u << 30) / kElements);
  EXPECT_LE(found, (1u << 30) / kElements + 3 * step.size());
}

// Iterations of `step`, of which `which` meets two tensors for the first time:
// what its ops 1 and 20 read is only alike.
std::vector<StreamToken> WithNewTensors(const Stream& step, int times,
                                        int which) {
  std::vector<StreamToken> tokens;
  for (int i = 0; i < times; ++i) {
    for (std::size_t op = 0; op < step.size(); ++op) {
      const std::uint64_t loose = step[op].token;
      const bool is_first = i == which && (op == 1 || op == 20);
      tokens.emplace_back(is_first ? loose + 1 : loose, loose);
    }
  }
  return tokens;
}

// The position where `step`, whose tokens have so many elements, is found when
// its iteration `which` met new tensors; 0: not in 9,000 tokens.
std::uint64_t FoundWithNewTensors(const Stream& step, int which,
                                  std::int64_t elements) {
  HotDetector detector;
  const int times = static_cast<int>(9000 / step.size());
  for (const StreamToken& token : WithNewTensors(step, times, which)) {
    const auto candidate =
        detector.Observe(token, HotDetector::kPlain, 0, elements);
    if (candidate.period != 0) return detector.position();
  }
  return 0;
}

TEST_F(HotDetectorTest, ConstantsDelayNoLoopBehindItsFirstIteration) {
  const Stream step = Ops(35, 1u << 20);
  const std::uint64_t found = FoundWithNewTensors(step, 0, 0);
  EXPECT_GE(found, 4096u);
  EXPECT_LE(found, 4096u + 3 * step.size());
  constexpr std::int64_t kElements = std::int64_t{1} << 22;
  const std::uint64_t heavy = FoundWithNewTensors(step, 0, kElements);
  EXPECT_GE(heavy, 16 * step.size());
  EXPECT_LE(heavy, 20 * step.size());
}

// Tensors that a later iteration meets for the first time are drawn ones: more
// are to come.
TEST_F(HotDetectorTest, NewTensorsInALaterIterationMakeALoopLoose) {
  const Stream step = Ops(35, 1u << 20);
  constexpr std::int64_t kElements = std::int64_t{1} << 22;
  const std::uint64_t found = FoundWithNewTensors(step, 10, kElements);
  EXPECT_GE(found, 8192u);
  EXPECT_LE(found, 8192u + 3 * step.size());
}

// Twelve layers of a step are not cut from it, however big they are.
TEST_F(HotDetectorTest, HeavyLayersAreNotCutFromTheirStep) {
  const Stream step = 12 * Ops(20) + Ops(10) + SyncPoint();
  for (const Op& op : 3 * step) {
    const auto candidate =
        detector_.Observe(op.token, op.flags, 0, std::int64_t{1} << 24);
    if (candidate.period != 0) {
      EXPECT_EQ(candidate.period, step.size());
    }
  }
}

TEST_F(HotDetectorTest, ComesBackAtTheClosings2_3_4_8_16) {
  const Stream step = Ops(50) + SyncPoint();
  std::vector<std::uint64_t> closings;
  for (const Found& f : Feed(&detector_, 40 * step)) {
    closings.push_back(f.after / step.size());
  }
  EXPECT_EQ(closings, (std::vector<std::uint64_t>{2, 3, 4, 8, 16, 32}));
}

TEST_F(HotDetectorTest, NestedLoopsAreFoundAsOne) {
  const Stream layer = Ops(40);
  const Stream step = Ops(30) + 24 * layer + Ops(20) + SyncPoint();
  const auto found = Feed(&detector_, 6 * step);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].after, 2 * step.size());
  for (const Found& f : found) EXPECT_EQ(f.candidate.period, step.size());
}

TEST_F(HotDetectorTest, StepThatBeginsWithItsInnerLoopIsFoundAsOne) {
  const Stream layer = Ops(40);
  const Stream step = 24 * layer + Ops(20) + SyncPoint();
  const auto found = Feed(&detector_, 3 * step);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].after, 2 * step.size());
  EXPECT_EQ(found[0].candidate.period, step.size());
}

// Two inner loops of the same ops with other trip counts: every fingerprint
// occurs twice in a step.
TEST_F(HotDetectorTest, SameInnerLoopTwiceInAStep) {
  const Stream inner = Ops(40);
  const Stream between = Ops(20) + SyncPoint();
  const Stream step = 5 * inner + between + 7 * inner + between;
  std::uint64_t first = 0;
  for (const Found& f : Feed(&detector_, 5 * step)) {
    if (first == 0 && f.candidate.period == step.size()) first = f.after;
  }
  EXPECT_GT(first, 0u);
  EXPECT_LE(first, 3 * step.size());
}

TEST_F(HotDetectorTest, LoopPerParameterIsNotCutFromItsStep) {
  const Stream update = Ops(12);
  const Stream step =
      AfterMarkStep(Ops(100)) + SyncPoint() + 161 * update + Ops(3);
  const auto found = Feed(&detector_, 4 * step);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].after, 2 * step.size());
  for (const Found& f : found) EXPECT_EQ(f.candidate.period, step.size());
}

TEST_F(HotDetectorTest, SyncPointsInAMarkedStepAreNoCandidates) {
  const Stream inner = Ops(12) + SyncPoint();
  const Stream step = AfterMarkStep(Ops(100)) + 20 * inner;
  for (const Found& f : Feed(&detector_, 4 * step)) {
    EXPECT_EQ(f.candidate.period, step.size());
  }
}

// One mark_step() at the start of a phase, and sync points from then on.
TEST_F(HotDetectorTest, LoopOfSyncPointsIsFoundAfterOneMarkStep) {
  for (const std::size_t length : {4u, 49u, 699u, 9999u}) {
    HotDetector detector;
    const Stream start = AfterMarkStep(Ops(5, 1u << 30));
    const Stream step = Ops(length, 1u << 30) + SyncPoint();
    const std::size_t enough = std::min<std::size_t>(
        32 * step.size(), std::max<std::size_t>(4 * step.size(), 512));
    const auto found = Feed(&detector, start + 33 * step);
    ASSERT_FALSE(found.empty()) << length;
    EXPECT_LE(found[0].after, start.size() + enough + step.size());
    EXPECT_EQ(found[0].candidate.period, step.size());
    EXPECT_EQ(found[0].candidate.until_cut, 0u);
    EXPECT_TRUE(found[0].candidate.cut_at_boundary);
  }
}

TEST_F(HotDetectorTest, EvaluationIsFoundAfterMarkedTraining) {
  const Stream train = AfterMarkStep(Ops(700));
  const Stream eval = Ops(249) + SyncPoint();
  Feed(&detector_, 20 * train);
  std::size_t promoted = 0;
  std::uint64_t first = 0;
  for (const Found& f : Feed(&detector_, 20 * eval)) {
    if (f.candidate.period != eval.size()) continue;
    if (promoted++ == 0) first = f.after - 20 * train.size();
  }
  EXPECT_GE(promoted, 2u);
  EXPECT_LE(first, 8 * eval.size());
}

TEST_F(HotDetectorTest, PromotedPeriodComesBackAtItsSecondEnd) {
  const Stream step = Ops(70, 1u << 30), other = Ops(3, 1u << 30);
  const auto found = Feed(&detector_, 60 * step);
  ASSERT_FALSE(found.empty());
  detector_.Break();
  // Whatever the rotation.
  Stream again = 3 * step;
  again.erase(again.begin(), again.begin() + 31);
  const auto back = Feed(&detector_, again);
  ASSERT_FALSE(back.empty());
  EXPECT_EQ(back[0].candidate.period, step.size());
  EXPECT_EQ(back[0].after - 60 * step.size(), 2 * step.size());
  EXPECT_TRUE(Feed(&detector_, 100 * other).empty());  // another one does not
}

TEST_F(HotDetectorTest, SameOpsBetweenMarkStepsAreOneStep) {
  const Stream block = Ops(40);
  const Stream step = AfterMarkStep(block) + 9 * block;
  const auto found = Feed(&detector_, 3 * step);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].candidate.period, step.size());
  EXPECT_EQ(found[0].candidate.until_cut, 0u);
}

TEST_F(HotDetectorTest, InnerLoopOfVaryingTripCountIsPromotedAlone) {
  const Stream inner = Ops(40);
  const Stream rest = Ops(30) + SyncPoint();
  std::vector<int> promoted;
  for (int step = 0; step < 60; ++step) {
    const int trips = 2 + step * 37 % 60;  // never the same twice
    for (const Found& f : Feed(&detector_, trips * inner + rest)) {
      if (f.candidate.period != inner.size()) continue;
      promoted.push_back(step);
      EXPECT_FALSE(f.candidate.cut_at_boundary);
    }
  }
  ASSERT_FALSE(promoted.empty());
  EXPECT_GE(promoted[0], 16);
}

// Each step begins the loop in another way, so that it is found somewhere in
// its body, and ends it where the body ends.
TEST_F(HotDetectorTest, InnerLoopOfVaryingTripCountBeginsWhereItEnds) {
  const Stream inner = Ops(40);
  bool is_found = false;
  for (std::size_t step = 0; step < 60; ++step) {
    const Stream rest = Ops(30, std::uint64_t{1} << 40);
    const auto begin = static_cast<std::ptrdiff_t>(step * 7 % inner.size());
    const Stream part(inner.begin() + begin, inner.end());
    const Stream stream =
        part + static_cast<int>(4 + step * 37 % 60) * inner;
    const std::uint64_t loop = detector_.position() + part.size();
    for (const Found& f : Feed(&detector_, stream + rest)) {
      ASSERT_EQ(f.candidate.period, inner.size());
      EXPECT_TRUE(f.candidate.varies);
      EXPECT_EQ((f.after + f.candidate.until_cut - loop) % inner.size(), 0u);
      is_found = true;
    }
  }
  EXPECT_TRUE(is_found);
}

// Each pair of steps is followed by something new.
TEST_F(HotDetectorTest, PairsOfStepsAreFound) {
  const Stream layer = Ops(40);
  const Stream step = 5 * layer + Ops(20) + SyncPoint();
  for (int i = 0; i < 30; ++i) {
    std::size_t pairs = 0;
    for (const Found& f :
         Feed(&detector_, 2 * step + Ops(20, std::uint64_t{1} << 40))) {
      pairs += f.candidate.period == step.size();
    }
    EXPECT_EQ(pairs, 1u) << i;
  }
}

TEST_F(HotDetectorTest, InnerLoopOfStepsThatRepeatIsNeverPromotedAlone) {
  const Stream layer = Ops(40);
  const Stream step = 5 * layer + Ops(20) + SyncPoint();
  for (int i = 0; i < 100; ++i) {
    for (const Found& f :
         Feed(&detector_, 3 * step + Ops(20, std::uint64_t{1} << 40))) {
      ASSERT_EQ(f.candidate.period, step.size()) << i;
    }
  }
}

// Fifteen steps and a list made anew, but a value read in between leaves hardly
// such a period whole: its captures are in vain, so the steps are found alone.
TEST_F(HotDetectorTest, PeriodThatIsCapturedInVainHidesNoInnerLoop) {
  const Stream step = Ops(61, 1u << 20);
  const Stream outer = 15 * step + Ops(9, 1u << 20) + SyncPoint();
  const auto period = static_cast<std::uint32_t>(outer.size());
  for (const bool in_vain : {false, true}) {
    HotDetector detector;
    Feed(&detector, 3 * outer);
    EXPECT_EQ(detector.period(), period);
    for (std::uint32_t i = 0; i < policy::kVainCaptures; ++i) {
      detector.RecordCapture(period, in_vain);
    }
    Feed(&detector, Ops(5));
    const auto found = Feed(&detector, policy::kPeriodsWithoutVain * outer);
    ASSERT_FALSE(found.empty());
    const bool is_step = found[0].candidate.period == step.size();
    EXPECT_EQ(is_step, in_vain) << found[0].candidate.period;
  }
}

TEST_F(HotDetectorTest, PeriodWithoutInnerLoopIsLookedForThoughInVain) {
  const Stream step = Ops(500, 1u << 20) + SyncPoint();
  const auto period = static_cast<std::uint32_t>(step.size());
  Feed(&detector_, 3 * step);
  for (std::uint32_t i = 0; i < policy::kVainCaptures; ++i) {
    detector_.RecordCapture(period, /*in_vain=*/true);
  }
  Feed(&detector_, Ops(5));
  const auto found = Feed(&detector_, 2 * step);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].candidate.period, period);
}

// Shorter periods that may lie under the one that holds are as long as that in
// vain: there is none to be taken.
TEST_F(HotDetectorTest, PeriodThatHoldsMayBeLongerThanOneInVain) {
  const Stream twice = Ops(20, 1u << 20) + SyncPoint();
  const Stream step = twice + Ops(100, 1u << 20) + twice + Ops(800, 1u << 20);
  const Stream outer = 8 * Ops(10, 1u << 20) + Ops(11, 1u << 20) + SyncPoint();
  Feed(&detector_, 4 * outer);
  Feed(&detector_, step);
  for (std::uint32_t i = 0; i < policy::kVainCaptures; ++i) {
    Feed(&detector_, Stream(step.begin() + 10 * i, step.begin() + 10 * i + 10));
    detector_.RecordCapture(static_cast<std::uint32_t>(outer.size()),
                            /*in_vain=*/true);
  }
  EXPECT_EQ(detector_.period(), step.size());
  Feed(&detector_, Stream(step.begin() + 30, step.end()));
  EXPECT_EQ(detector_.period(), step.size());
}

TEST_F(HotDetectorTest, NoiseBeforeThePeriodDoesNotMatter) {
  const Stream noise = Ops(5000, 1u << 30);
  const Stream step = Ops(699) + SyncPoint();
  const auto found = Feed(&detector_, noise + 2 * step);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].after, noise.size() + 2 * step.size());
}

TEST_F(HotDetectorTest, AlternatingVariantsAreFoundTogetherAndAlone) {
  const Stream train = Ops(699) + SyncPoint();
  const Stream eval = Ops(249) + SyncPoint();
  const auto both = Feed(&detector_, 2 * (train + eval));
  ASSERT_EQ(both.size(), 1u);
  EXPECT_EQ(both[0].candidate.period, train.size() + eval.size());

  HotDetector detector;
  std::vector<std::uint32_t> periods;
  for (const Found& f : Feed(&detector, 3 * (20 * train + 5 * eval))) {
    periods.push_back(f.candidate.period);
  }
  EXPECT_NE(std::find(periods.begin(), periods.end(), 700u), periods.end());
  EXPECT_NE(std::find(periods.begin(), periods.end(), 250u), periods.end());
}

TEST_F(HotDetectorTest, PhaseThatComesBackIsFoundWithinThreeSteps) {
  const Stream train = Ops(699) + SyncPoint();
  const Stream other = Ops(3000, 1u << 30);
  Feed(&detector_, 40 * train + other);
  const auto found = Feed(&detector_, 3 * train);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].candidate.period, train.size());
}

TEST_F(HotDetectorTest, OnePercentOfInsertedOps) {
  const Stream step = Ops(29) + SyncPoint();
  Stream ops;
  for (const Op& op : 300 * step) {
    ops.push_back(op);
    if (rng_() % 100 == 0) ops = ops + Ops(1, 1u << 30);
  }
  int good = 0;
  for (const Found& f : Feed(&detector_, ops)) {
    good += f.candidate.period == step.size();
  }
  EXPECT_GE(good, 20);
}

TEST_F(HotDetectorTest, StreamThatNeverRepeatsHasNoCandidate) {
  EXPECT_TRUE(Feed(&detector_, Ops(200000, 1u << 30)).empty());
  HotDetector other;
  EXPECT_TRUE(Feed(&other, Ops(200000, 20)).empty());
}

TEST_F(HotDetectorTest, SyncPointsAloneAreNoCandidate) {
  EXPECT_TRUE(Feed(&detector_, 10000 * SyncPoint()).empty());
}

TEST_F(HotDetectorTest, ShortestPeriodIsTakenAfterAGap) {
  const Stream step = Ops(100) + SyncPoint();
  const Stream ops = 4 * step + Ops(1, 1u << 30) + 6 * step;
  for (const Found& f : Feed(&detector_, ops)) {
    EXPECT_EQ(f.candidate.period, step.size());
  }
  EXPECT_EQ(detector_.period(), step.size());
}

// Wherever the program is when tjit is switched on, the same iteration is cut.
TEST_F(HotDetectorTest, CutDoesNotDependOnTheStart) {
  const Stream plain = Ops(61, 7);
  Stream marked = AfterMarkStep(plain);
  Stream synced = plain;
  for (const std::size_t i : {4u, 17u, 50u}) {
    synced[i].flags = HotDetector::kSync;
  }
  Stream fresh = plain;
  for (const std::size_t i : {9u, 33u}) {
    fresh[i].flags = HotDetector::kFreshExternal;
  }
  for (const Stream& step : {plain, marked, synced, fresh}) {
    std::vector<std::uint64_t> expected;
    for (std::size_t skipped = 0; skipped < step.size(); ++skipped) {
      HotDetector detector;
      Stream ops = 100 * step;
      ops.erase(ops.begin(), ops.begin() + static_cast<long>(skipped));
      const auto found = Feed(&detector, ops);
      ASSERT_FALSE(found.empty());
      ASSERT_EQ(found[0].candidate.period, step.size());
      const auto iteration = Iteration(ops, found[0]);
      if (expected.empty()) expected = iteration;
      EXPECT_EQ(iteration, expected) << skipped;
    }
  }
}

TEST_F(HotDetectorTest, MarkedStepBeginsAfterMarkStep) {
  const Stream step = AfterMarkStep(Ops(10) + SyncPoint() + Ops(10));
  const Stream ops = Ops(13, 1u << 30) + 4 * step;
  const auto found = Feed(&detector_, ops);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(Iteration(ops, found[0]), Tokens(step));
  EXPECT_TRUE(found[0].candidate.cut_at_boundary);
}

TEST_F(HotDetectorTest, StepBeginsAfterTheSyncPoint) {
  const Stream step = Ops(20) + SyncPoint();
  const Stream ops = step + step + step + step;
  const Stream rotated(ops.begin() + 7, ops.end());
  const auto found = Feed(&detector_, rotated);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(Iteration(rotated, found[0]), Tokens(step));
}

TEST_F(HotDetectorTest, StepWithoutBoundaryBeginsWithFreshData) {
  Stream step = Ops(20, 1u << 30);
  step[0].flags = HotDetector::kFreshExternal;
  Stream ops = 300 * step;
  ops.erase(ops.begin(), ops.begin() + 11);
  const auto found = Feed(&detector_, ops);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(Iteration(ops, found[0]), Tokens(step));
  EXPECT_FALSE(found[0].candidate.cut_at_boundary);
}

TEST_F(HotDetectorTest, OtherwiseTheLeastRotationIsCut) {
  for (int round = 0; round < 50; ++round) {
    HotDetector detector;
    Stream step = Ops(2 + rng_() % 40, 1 + rng_() % 4);
    const Stream ops = 3000 * step;
    const auto found = Feed(&detector, ops);
    if (found.empty()) continue;  // ends before 4096 tokens
    auto expected = BruteLeastRotation(Tokens(step));
    expected.resize(found[0].candidate.period);  // `step` may be a power
    EXPECT_EQ(Iteration(ops, found[0]), expected) << round;
    EXPECT_EQ(step.size() % expected.size(), 0u);
  }
}

TEST_F(HotDetectorTest, PeriodHoldsWhileItRepeats) {
  const Stream step = Ops(50) + SyncPoint();
  Feed(&detector_, 2 * step);
  for (const Op& op : 3 * step) {
    detector_.Observe(op.token, op.flags);
    EXPECT_EQ(detector_.period(), step.size());
  }
  Feed(&detector_, Ops(1, 1u << 30));
  EXPECT_EQ(detector_.period(), 0u);
}

TEST_F(HotDetectorTest, NothingRepeatsAcrossABreak) {
  const Stream step = Ops(50) + SyncPoint();
  Feed(&detector_, step);
  detector_.Break();
  EXPECT_EQ(detector_.period(), 0u);
  EXPECT_TRUE(Feed(&detector_, step).empty());
  EXPECT_EQ(detector_.period(), 0u);
  const auto found = Feed(&detector_, step);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].candidate.period, step.size());

  HotDetector half;  // a break inside an iteration
  Feed(&half, step + Stream(step.begin(), step.begin() + 25));
  half.Break();
  EXPECT_TRUE(Feed(&half, Stream(step.begin() + 25, step.end())).empty());
}

TEST_F(HotDetectorTest, EqualStreamsGiveEqualCandidates) {
  Stream ops;
  for (int i = 0; i < 200; ++i) {
    ops = ops + static_cast<int>(rng_() % 4) * Ops(1 + rng_() % 60, 5);
    if (i % 3 == 0) ops = ops + SyncPoint();
  }
  HotDetector a, b;
  const auto first = Feed(&a, 3 * ops), second = Feed(&b, 3 * ops);
  ASSERT_FALSE(first.empty());
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].after, second[i].after);
    EXPECT_EQ(first[i].candidate.period, second[i].candidate.period);
    EXPECT_EQ(first[i].candidate.until_cut, second[i].candidate.until_cut);
  }
}

// Each candidate is a true repetition, by comparing all of it.
TEST_F(HotDetectorTest, CandidatesAreSquares) {
  int candidates = 0;
  for (int round = 0; round < 200; ++round) {
    Stream ops;
    for (int i = 0; i < 30; ++i) {
      ops = ops + static_cast<int>(1 + rng_() % 6) * Ops(1 + rng_() % 50, 4);
      if (rng_() % 2) ops = ops + SyncPoint();
    }
    HotDetector detector;
    for (const Found& f : Feed(&detector, 4 * ops)) {
      const Stream all = 4 * ops;
      const std::size_t p = f.candidate.period;
      for (std::size_t i = f.after - p; i < f.after; ++i) {
        ASSERT_EQ(all[i].token, all[i - p].token);
      }
      EXPECT_LT(f.candidate.until_cut, p);
      ++candidates;
    }
  }
  EXPECT_GT(candidates, 200);
}

// Words of two letters on which polynomial hashes modulo 2^64 collide:
// whatever they propose, no candidate may be wrong.
TEST_F(HotDetectorTest, ThueMorseWordsCannotFoolIt) {
  Stream ops;
  const Stream a = Ops(1, 1u << 30), b = Ops(1, 1u << 30);
  for (std::uint64_t i = 0; i < 1u << 16; ++i) {
    ops.push_back((std::popcount(i) & 1) != 0 ? b[0] : a[0]);
  }
  ops = ops + SyncPoint() + ops + SyncPoint() + ops;
  const auto is_square = [&](const Found& f) {
    const std::size_t p = f.candidate.period;
    for (std::size_t i = f.after - p; i < f.after; ++i) {
      if (ops[i].token != ops[i - p].token) return false;
    }
    return true;
  };
  for (const Found& f : Feed(&detector_, ops)) EXPECT_TRUE(is_square(f));
  // And it still works.
  const Stream step = Ops(50) + SyncPoint();
  const auto found = Feed(&detector_, 3 * step);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.back().candidate.period, step.size());
}

// `step`, whose ops 3 and 20 read what is drawn: no two such tokens are equal,
// but all of one op are alike.
std::vector<StreamToken> WithDrawnInputs(const Stream& step, int times,
                                         std::mt19937_64* rng) {
  std::vector<StreamToken> tokens;
  for (int i = 0; i < times; ++i) {
    for (std::size_t op = 0; op < step.size(); ++op) {
      const std::uint64_t loose = step[op].token;
      const bool is_drawn = op == 3 || op == 20;
      tokens.emplace_back(is_drawn ? (*rng)() : loose, loose);
    }
  }
  return tokens;
}

TEST_F(HotDetectorTest, InputsThatAreDrawnBreakNoPeriod) {
  const Stream step = Ops(39, 1u << 20) + SyncPoint();
  std::uint64_t position = 0, found = 0;
  for (const StreamToken& token : WithDrawnInputs(step, 6, &rng_)) {
    const Op& op = step[position++ % step.size()];
    const auto candidate = detector_.Observe(token, op.flags);
    if (candidate.period == 0) continue;
    if (found == 0) found = position;
    EXPECT_EQ(candidate.period, step.size());
    EXPECT_EQ((position + candidate.until_cut) % step.size(), 0u);
  }
  EXPECT_GT(found, 0u);
  EXPECT_LE(found, 3 * step.size());
  EXPECT_TRUE(detector_.Expects({rng_(), step[0].token}, step[0].flags));
  EXPECT_FALSE(detector_.Expects({rng_(), rng_()}, step[0].flags));
}

// A deep net: its layers differ in their parameters alone, so that their tokens
// are alike. What ends at a boundary is the step.
TEST_F(HotDetectorTest, LayersThatAreAlikeAreNotCutFromTheirStep) {
  const Stream layer = Ops(38, 1u << 20);
  constexpr int kLayers = 150;
  std::vector<std::uint64_t> parameters(kLayers);
  for (std::uint64_t& parameter : parameters) parameter = rng_();
  for (int step = 0; step < 4; ++step) {
    for (const std::uint64_t parameter : parameters) {
      for (std::size_t op = 0; op < layer.size(); ++op) {
        const std::uint64_t loose = layer[op].token;
        const StreamToken token(op == 5 ? parameter : loose, loose);
        const auto candidate = detector_.Observe(token, HotDetector::kPlain, 0,
                                                 std::int64_t{1} << 24);
        EXPECT_EQ(candidate.period, 0u) << candidate.period;
      }
    }
    const auto candidate = detector_.Observe(0x5EED, HotDetector::kSync);
    EXPECT_EQ(candidate.period, step == 0 ? 0 : kLayers * layer.size() + 1);
  }
}

// `step` between `drawn` ops that are others each time.
Stream BehindDrawnOps(const Stream& step, int drawn, int times,
                      std::mt19937_64* rng) {
  Stream ops;
  for (int i = 0; i < times; ++i) {
    ops =
        ops + RandomOps(*rng, static_cast<std::size_t>(drawn), 1u << 30) + step;
  }
  return ops;
}

TEST_F(HotDetectorTest, StretchBetweenOpsThatDifferIsFoundAfterTenTimes) {
  const Stream step = Ops(59, 1u << 20) + SyncPoint();
  const Stream ops = BehindDrawnOps(step, 12, 30, &rng_);
  const auto found = Feed(&detector_, ops);
  ASSERT_EQ(found.size(), 2u);
  for (const Found& f : found) {
    EXPECT_EQ(f.candidate.period, step.size());
    EXPECT_EQ(f.candidate.distance, step.size() + 12);
    EXPECT_EQ(f.candidate.times % 10, 0u);
    EXPECT_EQ(Iteration(ops, f), Tokens(step));
  }
  // It came ten times when what is behind the tenth begins.
  EXPECT_EQ(found[0].after, 10 * (step.size() + 12) + 1);
}

TEST_F(HotDetectorTest, StretchWithoutBoundaryNeedsEightThousandTokens) {
  const Stream step = Ops(60, 1u << 20);
  const Stream ops = BehindDrawnOps(step, 12, 150, &rng_);
  const auto found = Feed(&detector_, ops);
  ASSERT_FALSE(found.empty());
  EXPECT_GE(found[0].after, 8192u);
  EXPECT_LE(found[0].after, 8192u + 11 * (step.size() + 12));
  EXPECT_EQ(Iteration(ops, found[0]), Tokens(step));
}

// What is joined was drawn: it has other sizes each time.
TEST_F(HotDetectorTest, StretchBeginsBehindWhatIsJoined) {
  Stream step = Ops(59, 1u << 20) + SyncPoint();
  step[1].flags = step[3].flags = HotDetector::kJoinsMany;
  step[50].flags = HotDetector::kJoinsMany;
  const Stream ops = BehindDrawnOps(step, 12, 20, &rng_);
  const auto found = Feed(&detector_, ops);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].candidate.period, step.size() - 4);
  EXPECT_EQ(Iteration(ops, found[0]),
            Tokens(Stream(step.begin() + 4, step.end())));
}

// Twenty layers that differ in two ops lie in a step, which is found.
TEST_F(HotDetectorTest, LayersThatDifferAreNoStretches) {
  const Stream layer = Ops(48, 1u << 20);
  const Stream step =
      BehindDrawnOps(layer, 2, 20, &rng_) + Ops(10) + SyncPoint();
  const auto found = Feed(&detector_, 4 * step);
  ASSERT_FALSE(found.empty());
  for (const Found& f : found) {
    EXPECT_EQ(f.candidate.period, step.size());
    EXPECT_EQ(f.candidate.distance, 0u);
  }
}

TEST_F(HotDetectorTest, ObserveAllocatesNothing) {
  const Stream ops = 3 * (Ops(3000) + 20 * Ops(40) + SyncPoint()) +
                     Ops(70000, 50) + 300 * Ops(20);
  const std::int64_t before = AllocationCount();
  int candidates = 0;
  for (const Op& op : ops) {
    candidates += detector_.Observe(op.token, op.flags).period != 0;
  }
  EXPECT_EQ(AllocationCount() - before, 0);
  EXPECT_GT(candidates, 2);
  EXPECT_GT(before, 0);  // the counter is connected
}

// KiB of this process that are in memory.
std::int64_t ResidentKib() {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE) / 1024;
}

// A server has a thread for each request.
TEST_F(HotDetectorTest, ThreadThatRunsFewOpsTakesLittleMemory) {
  constexpr int kThreads = 20;
  const std::int64_t before = ResidentKib();
  std::vector<std::unique_ptr<HotDetector>> detectors;
  for (int i = 0; i < kThreads; ++i) {
    detectors.push_back(std::make_unique<HotDetector>());
    for (std::uint64_t op = 0; op < 10; ++op) {
      detectors.back()->Observe(op, HotDetector::kPlain);
    }
  }
  EXPECT_LT(ResidentKib() - before, kThreads * 300);  // of 1,700
}

}  // namespace
}  // namespace tjit

#include "recorder/trace_trial.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace tjit {
namespace {

constexpr std::int64_t kBlock = TraceTrial::kBlock;

// A program whose runs take so long, one after the other.
class Program {
 public:
  Program(std::uint64_t replay_ns, std::uint64_t eager_ns)
      : Program(replay_ns, eager_ns, eager_ns) {}
  // `measured_eager_ns`: what eager runs took before it was hot.
  Program(std::uint64_t replay_ns, std::uint64_t eager_ns,
          std::uint64_t measured_eager_ns)
      : replay_ns_(replay_ns), eager_ns_(eager_ns) {
    for (int i = 0; i < 15; ++i) {
      replayed_.Add(replay_ns);
      eager_.Add(measured_eager_ns);
    }
  }
  // Blocks until so many runs have been; how many were eager ones.
  int RunTo(std::int64_t entry) {
    int eager = 0;
    for (; entry_ < entry; entry_ += kBlock) {
      given_up_ += trial.BeginBlock(entry_, now_, this, replayed_, eager_);
      const bool is_eager = trial.runs_eagerly();
      eager += is_eager;
      now_ += kBlock * (is_eager ? eager_ns_ : replay_ns_) + noise_(entry_);
    }
    return eager;
  }
  void SetNoise(std::uint64_t (*noise)(std::int64_t)) { noise_ = noise; }
  std::int64_t entry() const { return entry_; }
  int given_up() const { return given_up_; }

  TraceTrial trial;

 private:
  std::uint64_t replay_ns_, eager_ns_;
  std::uint64_t (*noise_)(std::int64_t) = [](std::int64_t) {
    return std::uint64_t{0};
  };
  std::uint64_t now_ = 1;
  std::int64_t entry_ = 64;
  int given_up_ = 0;
  RunTimes replayed_, eager_;
};

TEST(TraceTrial, WhatIsClearlyFasterIsNotTried) {
  Program p(800, 1000);
  EXPECT_EQ(p.RunTo(100000), 0);
  EXPECT_FALSE(p.trial.is_off());
  EXPECT_EQ(p.trial.replay_ns(), 0u);
}

// A sequence that a profile knows has not run eagerly before.
TEST(TraceTrial, AClearTrialIsShort) {
  Program p(500, 1000, /*measured_eager_ns=*/0);
  EXPECT_EQ(p.RunTo(200000), TraceTrial::kEarly);
  EXPECT_FALSE(p.trial.is_off());
}

TEST(TraceTrial, WhatIsAsFastIsTriedOnce) {
  Program p(1000, 1000);
  EXPECT_EQ(p.RunTo(TraceTrial::kFirst), 0);
  EXPECT_EQ(p.RunTo(200000), TraceTrial::kBlocks);
  EXPECT_FALSE(p.trial.is_off());
  EXPECT_FALSE(p.trial.runs_eagerly());
  EXPECT_EQ(p.given_up(), 0);
  EXPECT_EQ(p.trial.replay_ns(), 1000u);
  EXPECT_EQ(p.trial.eager_ns(), 1000u);
}

TEST(TraceTrial, WhatIsSlowerIsGivenUpAndTriedAgainMuchLater) {
  Program p(1200, 1000);
  EXPECT_EQ(p.RunTo(TraceTrial::kFirst), 0);
  EXPECT_FALSE(p.trial.is_off());
  p.RunTo(TraceTrial::kFirst +
          2 * kBlock * TraceTrial::kBlocks * (TraceTrial::kMaxLost + 1));
  EXPECT_TRUE(p.trial.is_off());
  EXPECT_TRUE(p.trial.runs_eagerly());
  EXPECT_EQ(p.given_up(), 1);
  EXPECT_EQ(p.trial.replay_ns(), 1200u);
  EXPECT_EQ(p.trial.eager_ns(), 1000u);
  const std::int64_t off = p.entry();
  EXPECT_EQ(p.RunTo(off + 100000), 100000 / kBlock);
  p.RunTo(off + TraceTrial::kAgain + 10000);
  EXPECT_EQ(p.given_up(), 2);
}

TEST(TraceTrial, LongRunsAreTriedEarlier) {
  Program p(12'000'000, 10'000'000);  // 256 of them take more than a second
  EXPECT_EQ(p.RunTo(TraceTrial::kFirstLong), 0);
  EXPECT_GT(p.RunTo(TraceTrial::kFirst), 0);
  EXPECT_TRUE(p.trial.is_off());
}

// Between runs the program does other things, now and then much.
TEST(TraceTrial, NoiseDoesNotDecide) {
  Program p(1000, 1005);
  p.SetNoise([](std::int64_t entry) -> std::uint64_t {
    return (entry / kBlock) * 2654435761u % 7 == 0 ? 1'000'000 : 500;
  });
  p.RunTo(200000);
  EXPECT_FALSE(p.trial.is_off());
  Program slow(1300, 1000);
  slow.SetNoise([](std::int64_t entry) -> std::uint64_t {
    return (entry / kBlock) * 2654435761u % 7 == 0 ? 1'000'000 : 500;
  });
  slow.RunTo(200000);
  EXPECT_TRUE(slow.trial.is_off());
}

// Runs of several threads are counted together: none of their blocks is whole.
TEST(TraceTrial, MixedRunsDecideNothing) {
  TraceTrial trial;
  RunTimes replayed, eager;
  replayed.Add(1200);
  eager.Add(1000);
  const int threads[2] = {0, 1};
  for (std::int64_t entry = 64; entry < 100000; entry += kBlock) {
    EXPECT_FALSE(trial.BeginBlock(
        entry, entry * 1200, &threads[entry / kBlock % 2], replayed, eager));
    EXPECT_FALSE(trial.runs_eagerly());
  }
}

TEST(TraceTrial, ACopyKnowsWhatWasDecided) {
  Program p(1200, 1000);
  p.RunTo(20000);
  TraceTrial copy;
  copy.CopyFrom(p.trial);
  EXPECT_TRUE(copy.is_off());
  EXPECT_TRUE(copy.runs_eagerly());
  EXPECT_EQ(copy.replay_ns(), 1200u);
  Program measuring(1200, 1000);
  measuring.RunTo(TraceTrial::kFirst + 2 * kBlock);
  EXPECT_TRUE(measuring.trial.runs_eagerly());
  TraceTrial other;
  other.CopyFrom(measuring.trial);
  EXPECT_FALSE(other.runs_eagerly());
}

}  // namespace
}  // namespace tjit

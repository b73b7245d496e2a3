// GCC 12 sees std::sort() of RunTimes go beyond its 15 numbers.
#pragma GCC diagnostic ignored "-Warray-bounds"

#include "recorder/trace_trial.h"

#include <algorithm>
#include <cstdint>

#include "gtest/gtest.h"

namespace tjit {
namespace {

constexpr std::int64_t kBlock = TraceTrial::kBlock;

// A program whose runs take so long, one after the other.
class Program {
 public:
  Program(std::uint64_t replay_ns, std::uint64_t eager_ns)
      : replay_ns_(replay_ns), eager_ns_(eager_ns) {
    for (int i = 0; i < 15; ++i) replayed_.Add(replay_ns);
  }
  // Blocks until so many runs have been; how many were eager ones.
  int RunTo(std::int64_t entry) {
    int eager = 0;
    for (; entry_ < entry; entry_ += kBlock) {
      given_up_ += trial.BeginBlock(entry_, now_, this, replayed_);
      const bool is_eager = trial.runs_eagerly();
      eager += is_eager;
      const std::uint64_t run = is_eager ? eager_ns_ : replay_ns_;
      if (is_eager) {
        trial.RecordUnseenRun(run);
      } else {
        replayed_.Add(run);
      }
      now_ += kBlock * run + noise_(entry_);
    }
    return eager;
  }
  void Replay(std::uint64_t ns) { replayed_.Add(ns); }
  // The first trial begins now.
  std::int64_t First() const {
    const auto runs = static_cast<std::int64_t>(
        (TraceTrial::kFirstNs + replay_ns_ - 1) / replay_ns_);
    return (std::max(runs, TraceTrial::kFirst) + kBlock - 1) / kBlock * kBlock;
  }
  // And has ended by then, whatever comes of it.
  std::int64_t Decided() const {
    return First() + kBlock * (2 * TraceTrial::kBlocks * TraceTrial::kMaxLost +
                               TraceTrial::kMaxLost + 3);
  }
  void SetNoise(std::uint64_t (*noise)(std::int64_t)) { noise_ = noise; }
  std::int64_t entry() const { return entry_; }
  std::uint64_t now() const { return now_; }
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
  RunTimes replayed_;
};

// Long enough for trials to come soon.
constexpr std::uint64_t kRun = 1'000'000;

TEST(TraceTrial, AClearTrialIsShort) {
  Program p(kRun * 8 / 10, kRun);
  EXPECT_EQ(p.RunTo(100000), TraceTrial::kEarly);
  EXPECT_FALSE(p.trial.is_off());
  EXPECT_EQ(p.trial.replay_ns(), kRun * 8 / 10);
  EXPECT_EQ(p.trial.eager_run_ns(), kRun);
}

// A program whose runs take so long: each is timed that the trial asks for.
class RunByRun {
 public:
  struct Eager {
    std::uint64_t ns;      // from run to run
    std::uint64_t own_ns;  // from the first op to the end; 0: it was left
  };
  RunByRun(std::uint64_t replay_ns, Eager (*eager)(int i))
      : replay_ns_(replay_ns), eager_(eager) {}
  // Runs up to number `entry`; how many of them were eager ones.
  int RunTo(std::int64_t entry) {
    int eager = 0;
    for (; entry_ < entry; ++entry_) {
      const bool is_timed = trial.times_each_run();
      timed_ += is_timed;
      const void* thread = this;
      if (is_mixed_ && entry_ % 3 == 0) thread = &replayed_;
      if (is_timed) trial.BeginEagerRun(entry_, now_, thread, replayed_);
      if (entry_ % kBlock == 0) {
        trial.BeginBlock(entry_, now_, this, replayed_);
      }
      if (!trial.runs_eagerly()) {
        now_ += replay_ns_;
        replayed_.Add(replay_ns_);
        continue;
      }
      const auto [ns, own_ns] = eager_(eager_runs_++);
      ++eager;
      now_ += ns;
      if (own_ns != 0 && (entry_ % kBlock == 0 || is_timed)) {
        trial.RecordUnseenRun(own_ns);
      }
    }
    return eager;
  }
  void RunUntilEager() {
    while (!trial.runs_eagerly()) RunTo(entry_ + 1);
  }
  void Wait(std::uint64_t ns) { now_ += ns; }
  // Every third run but those that begin a block is another thread's.
  void MixThreads() { is_mixed_ = true; }
  void set_replay_ns(std::uint64_t ns) { replay_ns_ = ns; }
  std::int64_t entry() const { return entry_; }
  int timed() const { return timed_; }

  TraceTrial trial;

 private:
  std::uint64_t replay_ns_;
  Eager (*eager_)(int i);
  std::uint64_t now_ = 1;
  std::int64_t entry_ = 0;
  int eager_runs_ = 0, timed_ = 0;
  bool is_mixed_ = false;
  RunTimes replayed_;
};

constexpr int kThreeBlocks = TraceTrial::kEarly * int{kBlock};

// Not three blocks of runs of 100 ms where replayed ones take 4.
TEST(TraceTrial, FewHeavyRunsAreEnough) {
  RunByRun heavy(4 * kRun, [](int i) -> RunByRun::Eager {
    const std::uint64_t own_ns = i == 0 ? 300 * kRun : 99 * kRun;
    return {own_ns + kRun, own_ns};
  });
  EXPECT_EQ(heavy.RunTo(4000), int{TraceTrial::kSureRuns});
  EXPECT_FALSE(heavy.trial.is_off());
  EXPECT_FALSE(heavy.trial.times_each_run());
  EXPECT_EQ(heavy.trial.eager_run_ns(), 99 * kRun);  // not of the first alone
  // And 20 ms of them.
  RunByRun lighter(kRun,
                   [](int) -> RunByRun::Eager { return {2 * kRun, 2 * kRun}; });
  EXPECT_EQ(lighter.RunTo(4000), 10);
}

TEST(TraceTrial, OtherRunsAreTriedInBlocks) {
  const auto eager_runs = [](std::uint64_t replay_ns,
                             RunByRun::Eager (*eager)(int i)) {
    RunByRun program(replay_ns, eager);
    const int runs = program.RunTo(4000);
    EXPECT_FALSE(program.trial.is_off());
    EXPECT_FALSE(program.trial.times_each_run());
    return runs;
  };
  // Less than twice as slow.
  EXPECT_EQ(
      eager_runs(4 * kRun,
                 [](int) -> RunByRun::Eager { return {7 * kRun, 7 * kRun}; }),
      kThreeBlocks);
  // Every third is fast.
  EXPECT_EQ(eager_runs(4 * kRun,
                       [](int i) -> RunByRun::Eager {
                         if (i % 3 == 0) return {5 * kRun, 5 * kRun};
                         return {50 * kRun, 50 * kRun};
                       }),
            kThreeBlocks);
  // The time goes to what the program does between the runs.
  EXPECT_EQ(
      eager_runs(4 * kRun,
                 [](int) -> RunByRun::Eager { return {50 * kRun, 5 * kRun}; }),
      kThreeBlocks);
  // Every third is left half-way.
  EXPECT_EQ(eager_runs(4 * kRun,
                       [](int i) -> RunByRun::Eager {
                         return {50 * kRun, i % 3 == 2 ? 0 : 50 * kRun};
                       }),
            kThreeBlocks);
}

TEST(TraceTrial, RunsOfTwoThreadsAreTriedInBlocks) {
  RunByRun program(
      4 * kRun, [](int) -> RunByRun::Eager { return {50 * kRun, 50 * kRun}; });
  program.MixThreads();
  EXPECT_EQ(program.RunTo(4000), kThreeBlocks);
  EXPECT_GT(program.timed(), 0);
}

// The third of the first three is slow, and no more so than noise.
TEST(TraceTrial, OneBlockOfHeavyRunsDoesNotDecide) {
  RunByRun program(8 * kRun, [](int i) -> RunByRun::Eager {
    const std::uint64_t ns = i / kBlock == 2 ? 11 * kRun : 8 * kRun;
    return {ns, ns};
  });
  EXPECT_EQ(program.RunTo(4000), TraceTrial::kBlocks * int{kBlock});
}

// The clock would be a part of such a run.
TEST(TraceTrial, LightRunsAreNotTimedOneByOne) {
  RunByRun program(kRun / 100, [](int) -> RunByRun::Eager {
    return {kRun / 10, kRun / 10};
  });
  EXPECT_EQ(program.RunTo(100000), kThreeBlocks);
  EXPECT_EQ(program.timed(), 0);
}

// The machine slows down in a block of eager runs: the replayed ones behind it
// are as slow.
TEST(TraceTrial, ASlowMachineEndsNoTrial) {
  RunByRun program(8 * kRun, [](int i) -> RunByRun::Eager {
    return i < 3 ? RunByRun::Eager{24 * kRun, 24 * kRun}
                 : RunByRun::Eager{8 * kRun, 8 * kRun};
  });
  program.RunUntilEager();
  const std::int64_t second = program.entry();  // run of the block
  program.RunTo(second + 2);
  program.set_replay_ns(24 * kRun);
  int eager = program.RunTo(second + 2 * kBlock);
  EXPECT_LE(eager, 1);
  program.set_replay_ns(8 * kRun);
  // It goes on with all of its blocks, as neither is clearly faster.
  eager += program.RunTo(second + 200 * kBlock);
  EXPECT_EQ(eager, TraceTrial::kBlocks * int{kBlock});
  EXPECT_FALSE(program.trial.is_off());
}

// Which takes seconds, so another sequence has begun its trial meanwhile.
TEST(TraceTrial, HeavyRunsLeaveATrialToAnother) {
  const auto eager = [](int) -> RunByRun::Eager {
    return {700 * kRun, 700 * kRun};
  };
  RunByRun first(400 * kRun, eager), second(kRun, eager);
  first.RunUntilEager();
  first.RunTo(first.entry() + 1);
  EXPECT_TRUE(first.trial.times_each_run());
  second.Wait(1'000'000 * kRun);
  EXPECT_EQ(second.RunTo(10000), int{TraceTrial::kSureRuns});
  EXPECT_FALSE(TraceTrial::IsUnderWay(0));
  EXPECT_EQ(first.RunTo(first.entry() + 1), 0);
  EXPECT_FALSE(first.trial.times_each_run());
  EXPECT_FALSE(first.trial.is_off());
}

// It would be given up for the code, which is about to be.
TEST(TraceTrial, WaitsWhileSlowCodeIsTried) {
  Program p(kRun / 100, kRun / 50);
  p.RunTo(TraceTrial::kFirst);
  for (int i = 0; i < 8; ++i) p.Replay(100 * kRun);
  EXPECT_EQ(p.RunTo(TraceTrial::kFirst + 2 * kBlock), 0);
  EXPECT_EQ(p.RunTo(p.First()), 0);
  EXPECT_EQ(p.RunTo(p.Decided()), TraceTrial::kEarly);
  EXPECT_FALSE(p.trial.is_off());
}

TEST(TraceTrial, WhatIsClearlySlowerIsGivenUpSoon) {
  Program p(kRun * 13 / 10, kRun);
  p.RunTo(p.First() + (2 * TraceTrial::kEarly + 2) * kBlock);
  EXPECT_TRUE(p.trial.is_off());
  EXPECT_EQ(p.given_up(), 1);
  EXPECT_LE(p.now(), 2'000'000'000u);
}

TEST(TraceTrial, WhatIsAsFastIsTriedOnce) {
  Program p(kRun, kRun);
  EXPECT_EQ(p.RunTo(p.First()), 0);
  EXPECT_EQ(p.RunTo(100000), TraceTrial::kBlocks);
  EXPECT_FALSE(p.trial.is_off());
  EXPECT_FALSE(p.trial.runs_eagerly());
  EXPECT_EQ(p.given_up(), 0);
  EXPECT_EQ(p.trial.replay_ns(), kRun);
  EXPECT_EQ(p.trial.eager_ns(), kRun);
}

TEST(TraceTrial, WhatIsSlowerIsGivenUpAndTriedAgainMuchLater) {
  Program p(kRun * 12 / 10, kRun);
  EXPECT_EQ(p.RunTo(p.First()), 0);
  EXPECT_FALSE(p.trial.is_off());
  p.RunTo(p.Decided());
  EXPECT_TRUE(p.trial.is_off());
  EXPECT_TRUE(p.trial.runs_eagerly());
  EXPECT_EQ(p.given_up(), 1);
  EXPECT_EQ(p.trial.replay_ns(), kRun * 12 / 10);
  EXPECT_EQ(p.trial.eager_ns(), kRun);
  const std::int64_t off = p.entry();
  EXPECT_EQ(p.RunTo(off + 100000), 100000 / kBlock);
  p.RunTo(off + TraceTrial::kAgain + 10000);
  EXPECT_EQ(p.given_up(), 2);
}

// Short runs have to take as much time.
TEST(TraceTrial, HalfASecondComesFirst) {
  Program p(12000, 10000);
  EXPECT_EQ(p.RunTo(p.First()), 0);
  EXPECT_GE(p.First(), 40000);
  p.RunTo(p.Decided());
  EXPECT_TRUE(p.trial.is_off());
}

// Between runs the program does other things, now and then much.
std::uint64_t NowAndThen(std::int64_t entry) {
  return (entry / kBlock) * 2654435761u % 7 == 0 ? 1000 * kRun : 500;
}

TEST(TraceTrial, NoiseDoesNotDecide) {
  Program p(kRun, kRun + 5000);
  p.SetNoise(NowAndThen);
  p.RunTo(100000);
  EXPECT_FALSE(p.trial.is_off());
  Program slow(kRun * 13 / 10, kRun);
  slow.SetNoise(NowAndThen);
  slow.RunTo(100000);
  EXPECT_TRUE(slow.trial.is_off());
}

// What comes every so many runs falls into blocks of both kinds, and into no
// run: here checkpoints of a sequence that pays, but is not known to.
TEST(TraceTrial, WhatComesNowAndThenDoesNotDecide) {
  for (const std::int64_t every : {32, 64, 96, 128}) {
    for (std::int64_t at = 0; at < every; at += kBlock) {
      static std::int64_t s_every, s_at;
      s_every = every;
      s_at = at;
      Program p(kRun * 9 / 10, kRun);
      p.SetNoise([](std::int64_t entry) -> std::uint64_t {
        return entry % s_every == s_at ? 100 * kRun : 0;
      });
      p.RunTo(100000);
      EXPECT_FALSE(p.trial.is_off()) << every << " " << at;
    }
  }
}

// One waits for another: what the other does is no part of its blocks.
TEST(TraceTrial, OneAtATime) {
  Program first(kRun * 12 / 10, kRun), second(kRun * 12 / 10, kRun);
  first.RunTo(first.First() + 2 * kBlock);
  second.RunTo(second.First() + 20 * kBlock);
  EXPECT_EQ(second.RunTo(second.entry() + 20 * kBlock), 0);
  first.RunTo(first.Decided());
  EXPECT_TRUE(first.trial.is_off());
  second.RunTo(second.entry() + second.Decided());
  EXPECT_TRUE(second.trial.is_off());
}

// Runs of several threads are counted together: none of their blocks is whole,
// and none stays an eager one.
TEST(TraceTrial, MixedRunsDecideNothing) {
  Program p(kRun * 12 / 10, kRun);
  while (!p.trial.runs_eagerly()) p.RunTo(p.entry() + kBlock);
  RunTimes replayed;
  replayed.Add(kRun * 12 / 10);
  const int threads[2] = {0, 1};
  for (int i = 1; i < 5000; ++i) {
    const std::int64_t entry = p.entry() + i * kBlock;
    EXPECT_FALSE(p.trial.BeginBlock(
        entry, p.now() + static_cast<std::uint64_t>(i) * 1200, &threads[i % 2],
        replayed));
    ASSERT_FALSE(p.trial.runs_eagerly());
  }
}

TEST(TraceTrial, ACopyKnowsWhatWasDecided) {
  Program p(kRun * 12 / 10, kRun);
  // The trial of the test before has to be found over.
  p.RunTo(p.Decided() + 1000);
  TraceTrial copy;
  copy.CopyFrom(p.trial);
  EXPECT_TRUE(copy.is_off());
  EXPECT_TRUE(copy.runs_eagerly());
  EXPECT_EQ(copy.replay_ns(), kRun * 12 / 10);
  Program measuring(kRun * 12 / 10, kRun);
  while (!measuring.trial.runs_eagerly()) {
    measuring.RunTo(measuring.entry() + kBlock);
  }
  TraceTrial other;
  other.CopyFrom(measuring.trial);
  EXPECT_FALSE(other.runs_eagerly());
  measuring.RunTo(measuring.Decided());  // for the tests behind this one
}

}  // namespace
}  // namespace tjit

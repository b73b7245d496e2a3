// Programs that go through more sequences than are kept (Note [Eviction] in
// recorder/trace_eviction.cpp): what is run goes on being replayed, what is
// not run is forgotten, and its memory is freed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tjit/tjit.h>
#include <torch/torch.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "runtime/testing.h"
#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

constexpr int kOps = 10;  // of a step
constexpr int kRunsOfEach = 25;

// A chain over the first `rows` of x; a step that ends at a boundary.
at::Tensor Step(const at::Tensor& x, std::int64_t rows) {
  const at::NoGradGuard no_grad;
  at::Tensor y = x.narrow(0, 0, rows);
  for (int i = 0; i < kOps / 2; ++i) y = (y * 0.75).tanh();
  mark_step();
  return y;
}

class EvictionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    clear();
    testing::WaitForCompiler();
    torch::manual_seed(1);
    x_ = torch::rand({2000, 4});
  }
  void TearDown() override {
    disable();
    clear();
  }
  // Step() over so many rows, compared with eager's bits.
  void Run(std::int64_t rows, int times) {
    std::vector<at::Tensor> ours;
    for (int i = 0; i < times; ++i) ours.push_back(Step(x_, rows));
    sync();
    disable();
    const at::Tensor eager = Step(x_, rows);
    enable(Again());
    for (const at::Tensor& y : ours) EXPECT_TRUE(SameBits(y, eager));
  }
  Options Again() {
    Options options;
    options.hot_threshold = 4;
    options.backend = Backend::kReplay;
    options.cache_dir = "off";
    options.max_trace_steps = steps_;
    options.max_trace_mb = bytes_mb_;
    return options;
  }
  void RunSizes(std::int64_t first, std::int64_t count) {
    for (std::int64_t n = first; n < first + count; ++n) {
      Run(n, kRunsOfEach);
      testing::WaitForCompiler();  // evicts
    }
  }
  std::int64_t steps_ = 400;
  std::int64_t bytes_mb_ = Options().max_trace_mb;
  at::Tensor x_;
};

TEST_F(EvictionTest, SizesGoOnBeingReplayed) {
  enable(Again());
  Run(4, 60);
  const Stats before = stats();
  RunSizes(5, 200);
  const Stats did = stats() - before;
  EXPECT_GE(did.evictions, 5) << did.to_json();
  EXPECT_LE(stats().trace_steps, 400);
  const auto ops = static_cast<double>(did.ops_seen);
  constexpr double kShare = (kRunsOfEach - 1.0) / kRunsOfEach;
  EXPECT_GE(static_cast<double>(did.ops_replayed), 0.95 * kShare * ops)
      << did.to_json();
  EXPECT_EQ(did.side_exit_count("store_full"), 0) << did.to_json();
}

// The records of what is kept never take more than is allowed, and it is said
// that some were forgotten.
TEST_F(EvictionTest, BytesAreALimitThatIsExplained) {
  steps_ = 400000;
  bytes_mb_ = 1;
  enable(Again());
  const Stats before = stats();
  for (int k = 0; k < 10; ++k) {
    RunSizes(5 + 20 * k, 20);
    EXPECT_GT(stats().trace_bytes, 0);
    EXPECT_LE(stats().trace_bytes, 1 << 20);
  }
  const Stats did = stats() - before;
  EXPECT_GE(did.evictions, 1) << did.to_json();
  EXPECT_GE(did.ops_replayed, did.ops_seen * 9 / 10) << did.to_json();
  EXPECT_THAT(explain(), ::testing::HasSubstr("were forgotten"));
}

// With room for all, nothing is forgotten.
TEST_F(EvictionTest, NothingIsForgottenBelowTheLimit) {
  steps_ = 4000;
  enable(Again());
  const Stats before = stats();
  Run(4, 60);
  RunSizes(5, 200);
  EXPECT_EQ(stats().evictions, before.evictions);
  EXPECT_GE(stats().trace_steps, 200 * kOps);
}

// The size that is run most is not even prepared again.
TEST_F(EvictionTest, WhatIsRunMostStaysAsItIs) {
  enable(Again());
  Run(4, 200);
  for (int k = 0; k < 4; ++k) {
    const std::int64_t evictions = stats().evictions;
    RunSizes(5 + 50 * k, 50);
    const Stats before = stats();
    EXPECT_GT(before.evictions, evictions);
    Run(4, 5);
    const Stats did = stats() - before;
    EXPECT_EQ(did.ops_replayed, did.ops_seen) << did.to_json();
    EXPECT_EQ(did.thunks_direct + did.thunks_boxed, 0) << did.to_json();
    EXPECT_EQ(did.memory_plans, 0) << did.to_json();
  }
  // The first of the others is gone: it is recorded anew.
  const Stats before = stats();
  Run(5, 1);
  EXPECT_EQ((stats() - before).ops_replayed, 0);
}

// Compiled code of what stays goes on, and serves what comes.
TEST_F(EvictionTest, CodeStays) {
  // Without a comparison of times, which a busy machine may let the code lose.
  Options options = MachineCodeAtOnce();
  options.max_trace_steps = steps_;
  ASSERT_TRUE(enable(options));
  const auto run = [&](std::int64_t rows, int times) {
    for (int i = 0; i < times; ++i) {
      Step(x_, rows);
      testing::WaitForCompiler();
    }
  };
  const Stats cold = stats();
  for (int i = 0; i < 200 && stats().replays_tier2 == cold.replays_tier2; ++i) {
    run(4, 100);
  }
  if (stats().replays_tier2 == cold.replays_tier2) {
    GTEST_SKIP() << "no machine code here";
  }
  run(4, 100);
  const Stats warm = stats();
  for (std::int64_t n = 5; n < 200; ++n) run(n, kRunsOfEach);
  const Stats before = stats();
  EXPECT_GE(before.evictions - warm.evictions, 2);
  EXPECT_EQ(before.kernels_compiled, warm.kernels_compiled);
  run(4, 10);
  const Stats did = stats() - before;
  EXPECT_EQ(did.replays_tier2, 10) << did.to_json();
}

// More than is kept, round and round: room is made only as fast as what came
// is run.
TEST_F(EvictionTest, RoundsThatDoNotFitAreNotChurned) {
  enable(Again());
  Run(4, 60);
  const auto round = [&] {
    Run(4, 160);  // a hot sequence beside them makes no room
    for (int n = 5; n < 165; ++n) Run(n, 1);
    testing::WaitForCompiler();
  };
  for (int i = 0; i < 20; ++i) round();
  const Stats before = stats();
  for (int i = 0; i < 20; ++i) round();
  const Stats did = stats() - before;
  EXPECT_LE(10 * did.memory_plans, did.segments - 20 * 160) << did.to_json();
}

TEST_F(EvictionTest, MemoryIsFreed) {
  enable(Again());
  const std::int64_t before = testing::LiveTraceNodes();
  const std::int64_t evictions = stats().evictions;
  Run(4, 60);
  for (int k = 0; k < 10; ++k) {
    RunSizes(5 + 20 * k, 20);
    testing::WaitForCompiler();
    // An old store goes with the thread's next op after the copy.
    Run(4, 1);
    testing::WaitForCompiler();
    EXPECT_LE(testing::LiveTraceNodes(), before + 400 + 1);
  }
  EXPECT_GE(stats().evictions - evictions, 2);
}

// clear() keeps nothing for threads that have gone, and what those that are
// left keep goes with their next op.
TEST_F(EvictionTest, ClearFreesTheStore) {
  steps_ = 4000;
  enable(Again());
  Run(4, 60);
  std::thread([&] { RunSizes(4, 40); }).join();
  std::atomic<int> phase{0};
  std::thread other([&] {
    Step(x_, 4);
    phase = 1;
    while (phase != 2) std::this_thread::yield();
    Step(x_, 4);
    phase = 3;
    while (phase != 4) std::this_thread::yield();
  });
  while (phase != 1) std::this_thread::yield();
  EXPECT_GE(testing::LiveTraceNodes(), 40 * kOps);
  clear();
  testing::WaitForCompiler();
  EXPECT_GE(testing::LiveTraceNodes(), 40 * kOps);
  phase = 2;
  while (phase != 3) std::this_thread::yield();
  testing::WaitForCompiler();
  EXPECT_LE(testing::LiveTraceNodes(), 2);
  phase = 4;
  other.join();
}

// Threads go over to the new store one after the other, in the midst of what
// they do. They go round until there were two stores: when the worker gets its
// turn is the machine's business.
TEST_F(EvictionTest, ManyThreads) {
  enable(Again());
  Run(4, 60);
  const Stats before = stats();
  const auto has_evicted = [&] {
    return stats().evictions - before.evictions >= 2;
  };
  constexpr int kMaxRounds = 1000;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      constexpr int kSizes = 150;
      for (int k = 0; k < kSizes * kMaxRounds; ++k) {
        if (k >= kSizes && has_evicted()) break;
        const std::int64_t n = 5 + k % kSizes;
        const std::int64_t rows = n + 400 * t;
        at::Tensor first;
        for (int i = 0; i < kRunsOfEach; ++i) {
          const at::Tensor y = Step(x_, rows);
          if (i == 0) first = y.clone();
          if (i + 1 == kRunsOfEach && !SameBits(first, y)) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  testing::WaitForCompiler();
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(stats().evictions - before.evictions, 2);
  EXPECT_LE(stats().trace_steps, 400);
}

// A process may fork while the store is copied; parent and child go on.
TEST_F(EvictionTest, Forks) {
  enable(Again());
  Run(4, 60);
  for (int k = 0; k < 20; ++k) {
    for (std::int64_t n = 0; n < 8; ++n) {
      for (int i = 0; i < kRunsOfEach; ++i) Step(x_, 5 + 8 * k + n);
    }
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(60);
      const std::int64_t before = stats().evictions;
      for (std::int64_t n = 300; n < 400; ++n) {
        for (int i = 0; i < kRunsOfEach; ++i) Step(x_, n);
        testing::WaitForCompiler();
      }
      const bool is_good =
          stats().evictions > before && stats().trace_steps <= 400;
      _exit(is_good ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

TEST_F(EvictionTest, LimitsAreChecked) {
  Options options = Again();
  options.max_trace_steps = 99;
  EXPECT_THROW(enable(options), c10::Error);
  options = Again();
  options.max_trace_mb = 0;
  EXPECT_THROW(enable(options), c10::Error);
}

}  // namespace
}  // namespace tjit

// Sequences whose replay is slower than eager are given up (trace_trial.h).
#include "recorder/trace_trial.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <tjit/tjit.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "runtime/testing.h"
#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

constexpr std::int64_t kOps = 2;
// Runs in which a sequence has its trial, once it may.
constexpr int kTrial = 3 * 31 * 16 + 200;

class TraceTrialTest : public ::testing::Test {
 protected:
  void SetUp() override {
    clear();
    Options options;
    options.hot_threshold = 4;
    options.backend = Backend::kReplay;
    options.cache_dir = "off";
    ASSERT_TRUE(enable(options));
    x_ = torch::rand({8});
  }
  void TearDown() override {
    testing::SetReplayDelayNs(0);
    disable();
    clear();
  }
  at::Tensor Step() {
    const at::NoGradGuard no_grad;
    const at::Tensor y = (x_ * 0.5).tanh();
    mark_step();
    return y;
  }
  // True if it ran eagerly, which takes 80 ms then.
  bool HeavyStep() {
    const at::NoGradGuard no_grad;
    const std::int64_t before = stats().ops_eager;
    const at::Tensor half = x_ * 0.5;
    const bool is_eager = stats().ops_eager != before;
    if (is_eager) std::this_thread::sleep_for(std::chrono::milliseconds(80));
    half.tanh();
    mark_step();
    return is_eager;
  }
  Stats Steps(int times) {
    const Stats before = stats();
    for (int i = 0; i < times; ++i) Step();
    return stats() - before;
  }
  // Replays of more than half a second, and then a trial of slow ones.
  Stats RunTrial() {
    const Stats before = stats();
    testing::SetReplayDelayNs(8000000);
    Steps(300);
    testing::SetReplayDelayNs(100000);
    Steps(kTrial);
    return stats() - before;
  }
  at::Tensor x_;
};

TEST_F(TraceTrialTest, SlowReplaysAreGivenUp) {
  const Stats trial = RunTrial();
  EXPECT_EQ(trial.traces_switched_off, 1) << trial.to_json();
  // Clearly: after three blocks of each kind.
  EXPECT_GT(trial.ops_replayed, 256 * kOps);
  EXPECT_LT(trial.ops_replayed, 350 * kOps);
  const Stats after = Steps(1000);
  EXPECT_EQ(after.ops_replayed, 0) << after.to_json();
  EXPECT_EQ(after.ops_eager, 1000 * kOps);
  EXPECT_EQ(after.traces, 0);
  EXPECT_EQ(after.sequences, 0);  // it is not looked for again
  const std::string said = explain();
  EXPECT_NE(said.find(" off, 2 ops: mul -> tanh"), std::string::npos) << said;
  EXPECT_NE(said.find("slower than eager"), std::string::npos) << said;
  // Another process is not told that it is worth replaying.
  char file[] = "/tmp/tjit-trial-XXXXXX";
  close(mkstemp(file));
  EXPECT_EQ(save_profile(file), 0);
  unlink(file);
}

// TJIT_TRACE_TRIALS=0, which tests set that count what is replayed.
TEST_F(TraceTrialTest, NothingIsTriedWhereTrialsAreOff) {
  const char* const trials = std::getenv("TJIT_TRACE_TRIALS");
  if (trials == nullptr || std::string(trials) != "0") {
    GTEST_SKIP() << "TJIT_TRACE_TRIALS is not 0";
  }
  Steps(20);
  const Stats trial = RunTrial();
  EXPECT_EQ(trial.traces_switched_off, 0) << trial.to_json();
  EXPECT_EQ(trial.ops_replayed, (300 + kTrial) * kOps);
}

// What was given up is that sequence only, and clear() knows nothing of it.
TEST_F(TraceTrialTest, OthersGoOn) {
  EXPECT_EQ(RunTrial().traces_switched_off, 1);
  testing::SetReplayDelayNs(0);
  const Stats before = stats();
  for (int i = 0; i < 50; ++i) {
    const at::NoGradGuard no_grad;
    at::Tensor y = x_.sin().cos() + 1.0;
    mark_step();
  }
  EXPECT_GT((stats() - before).ops_replayed, 40 * 3);
  clear();
  EXPECT_GT(Steps(50).ops_replayed, 40 * kOps);
}

// A longer sequence that begins with the same op is none of it.
TEST_F(TraceTrialTest, WhatBeginsAlikeGoesOn) {
  EXPECT_EQ(RunTrial().traces_switched_off, 1);
  testing::SetReplayDelayNs(0);
  const auto run = [&](int times) {
    const Stats before = stats();
    for (int i = 0; i < times; ++i) {
      const at::NoGradGuard no_grad;
      at::Tensor y = x_ * 0.5;
      for (int k = 0; k < 10; ++k) y = y.sin() + 0.25;
      mark_step();
    }
    return stats() - before;
  };
  run(100);
  const Stats did = run(100);
  EXPECT_GE(did.ops_replayed, 100 * 20) << did.to_json();
}

// Runs that take 80 ms eagerly and 8 replayed: three blocks of eager ones would
// hold up the program for four seconds.
TEST_F(TraceTrialTest, FewHeavyRunsAreEnough) {
  testing::SetReplayDelayNs(8000000);
  Steps(250);
  const Stats before = stats();
  int eager = 0;
  for (int i = 0; i < 200; ++i) eager += HeavyStep();
  const Stats did = stats() - before;
  EXPECT_EQ(eager, int{TraceTrial::kSureRuns}) << did.to_json();
  EXPECT_EQ(did.ops_replayed, (200 - eager) * kOps);
  EXPECT_EQ(did.traces_switched_off, 0);
}

// In the midst of its trial some blocks of runs are eager ones; the results are
// eager's all along.
TEST_F(TraceTrialTest, BitsDuringTheTrial) {
  disable();
  const at::Tensor eager = Step();
  Options options;
  options.hot_threshold = 4;
  options.backend = Backend::kReplay;
  options.cache_dir = "off";
  enable(options);
  testing::SetReplayDelayNs(8000000);
  Steps(300);
  testing::SetReplayDelayNs(100000);
  const Stats before = stats();
  for (int i = 0; i < kTrial; ++i) {
    const at::Tensor y = Step();
    if (i % 7 == 0) {
      ASSERT_TRUE(SameBits(y, eager)) << i;
    }
  }
  const Stats did = stats() - before;
  EXPECT_GT(did.ops_eager, 15 * 16 * kOps);
  EXPECT_EQ(did.ops_seen, did.ops_eager + did.ops_replayed);
}

}  // namespace
}  // namespace tjit

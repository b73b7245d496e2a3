// A thread for which tjit costs more than it wins is left alone for a while
// (recorder/thread_trial.h): its ops run as if tjit were off.
#include <gtest/gtest.h>
#include <time.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "runtime/testing.h"
#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kTwoSeconds{2};

// Ops of a stream that does not repeat.
class Stream {
 public:
  void Step() {
    const at::NoGradGuard no_grad;
    at::Tensor& x = xs_[random_() % xs_.size()];
    switch (random_() % 4) {
      case 0: x = x * 0.5; break;
      case 1: x = x.tanh(); break;
      case 2: x = x - x.mean(); break;
      default: x = x + 1; break;
    }
  }
  const std::vector<at::Tensor>& xs() const { return xs_; }

 private:
  std::mt19937 random_{1};
  std::vector<at::Tensor> xs_ = [] {
    std::vector<at::Tensor> xs;
    for (int i = 0; i < 64; ++i) xs.push_back(at::ones({8 + i}));
    return xs;
  }();
};

class ThreadAloneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    clear();
    Options options;
    options.hot_threshold = 4;
    options.backend = Backend::kReplay;
    options.cache_dir = "off";
    ASSERT_TRUE(enable(options));
  }
  void TearDown() override {
    testing::SetRecordingDelayNs(0);
    disable();
    clear();
  }
  // Until a thread is left alone, or the time is over; steps.
  static std::int64_t RunUntilAlone(const std::function<void()>& step,
                                    std::chrono::seconds most) {
    const std::int64_t before = stats().threads_left_alone;
    const auto end = Clock::now() + most;
    std::int64_t steps = 0;
    while (Clock::now() < end && stats().threads_left_alone == before) {
      for (int i = 0; i < 200; ++i, ++steps) step();
    }
    return steps;
  }
};

// Half of the time is ours: within two seconds (of processor time, so that a
// busy machine has as long as it takes).
TEST_F(ThreadAloneTest, WhatLosesIsLeftAlone) {
  testing::SetRecordingDelayNs(5000);
  const at::Tensor x = at::rand({16});
  Stream stream;
  timespec began{}, ended{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &began);
  const std::int64_t steps =
      RunUntilAlone([&] { stream.Step(); }, std::chrono::seconds(120));
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
  const Stats alone = stats();
  ASSERT_EQ(alone.threads_left_alone, 1);
  EXPECT_LT(ended.tv_sec - began.tv_sec, 3);
  // Nothing is looked at: what repeats now is not found, and costs nothing.
  for (int i = 0; i < 2000; ++i) {
    const at::NoGradGuard no_grad;
    const at::Tensor y = (x * 0.5).tanh();
    mark_step();
  }
  const Stats did = stats() - alone;
  EXPECT_EQ(did.ops_seen, 4000);
  EXPECT_EQ(did.ops_eager, 4000);
  EXPECT_EQ(did.sequences, 0);
  testing::SetRecordingDelayNs(0);
  // The same bits as without tjit.
  disable();
  Stream eager;
  for (std::int64_t i = 0; i < steps; ++i) eager.Step();
  for (std::size_t i = 0; i < eager.xs().size(); ++i) {
    EXPECT_TRUE(SameBits(stream.xs()[i], eager.xs()[i])) << i;
  }
}

// clear() forgets that, too.
TEST_F(ThreadAloneTest, ClearBeginsAnew) {
  testing::SetRecordingDelayNs(5000);
  Stream stream;
  RunUntilAlone([&] { stream.Step(); }, std::chrono::seconds(120));
  testing::SetRecordingDelayNs(0);
  clear();
  const Stats before = stats();
  const at::Tensor x = at::rand({16});
  for (int i = 0; i < 200; ++i) {
    const at::NoGradGuard no_grad;
    const at::Tensor y = (x * 0.5).tanh();
    mark_step();
  }
  EXPECT_GE((stats() - before).ops_replayed, 300);
}

// What is replayed wins, whatever the rest costs, or is none of the trial's.
TEST_F(ThreadAloneTest, WhatIsReplayedIsNot) {
  testing::SetRecordingDelayNs(5000);
  const at::Tensor x = at::rand({16});
  const std::int64_t before = stats().threads_left_alone;
  RunUntilAlone(
      [&] {
        const at::NoGradGuard no_grad;
        const at::Tensor y = (x * 0.5).tanh();
        mark_step();
      },
      kTwoSeconds);
  EXPECT_EQ(stats().threads_left_alone, before);
}

// Tensors of a thread that is left alone and of one that is not go to and fro.
TEST_F(ThreadAloneTest, OtherThreadsGoOn) {
  const at::Tensor x = at::rand({16});
  const auto make = [&](int turn) {
    const at::NoGradGuard no_grad;
    at::Tensor y = ((x + turn) * 0.5).tanh();
    for (int k = 0; k < 3; ++k) y = y * 0.5;
    return y;
  };
  constexpr int kTurns = 200;
  disable();
  std::vector<at::Tensor> eager;
  for (int i = 0; i < kTurns; ++i) eager.push_back(make(i) * 2);
  SetUp();
  testing::SetRecordingDelayNs(5000);
  Stream stream;
  RunUntilAlone([&] { stream.Step(); }, std::chrono::seconds(120));
  testing::SetRecordingDelayNs(0);
  const Stats before = stats();
  std::atomic<int> turn{0};
  at::Tensor handed;
  std::thread other([&] {
    for (int i = 0; i < kTurns; ++i) {
      while (turn != 2 * i) std::this_thread::yield();
      mark_step();  // of the turn before: this one's is pending when it goes
      handed = make(i);
      turn = 2 * i + 1;
    }
  });
  std::vector<at::Tensor> got;
  for (int i = 0; i < kTurns; ++i) {
    const at::NoGradGuard no_grad;
    while (turn != 2 * i + 1) std::this_thread::yield();
    got.push_back(handed * 2);
    turn = 2 * i + 2;
  }
  other.join();
  EXPECT_EQ(CountDifferences(got, eager), 0);
  EXPECT_GT((stats() - before).ops_replayed, kTurns);
}

}  // namespace
}  // namespace tjit

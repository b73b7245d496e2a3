// Threads that share weights: each replays, nobody flushes the others, and a
// write still finds every pending read.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "tjit/tjit.h"

namespace tjit {
namespace {

constexpr int kThreads = 2;

class SharedReadersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    at::manual_seed(3);
    w1_ = at::rand({16, 32}) - 0.5;
    w2_ = at::rand({32, 4}) - 0.5;
    b_ = at::rand({4});
  }
  void TearDown() override {
    disable();
    clear();
  }
  static void Enable() {
    Options options;
    options.hot_threshold = 3;
    ASSERT_TRUE(enable(options));
  }
  at::Tensor Forward(const at::Tensor& x) const {
    return at::add(at::mm(at::tanh(at::mm(x, w1_)), w2_), b_);
  }
  static at::Tensor Input(int thread, int step) {
    return at::full({8, 16}, 0.01 * (step % 7) + 0.1 * thread);
  }

  at::Tensor w1_, w2_, b_;
};

TEST_F(SharedReadersTest, ThreadsReplayWithoutFlushingEachOther) {
  constexpr int kSteps = 500;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> expected;
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < 7; ++i) expected.push_back(Forward(Input(t, i)));
  }
  Enable();
  std::atomic<int> wrong{0};
  std::barrier turn(kThreads);  // all have read the weights, none has run
  const auto work = [&](int t, int steps) {
    const at::NoGradGuard off;
    for (int i = 0; i < steps; ++i) {
      const at::Tensor h = at::mm(Input(t, i), w1_);
      turn.arrive_and_wait();
      const at::Tensor y = at::add(at::mm(at::tanh(h), w2_), b_);
      turn.arrive_and_wait();
      mark_step();
      wrong += !at::equal(y, expected[t * 7 + i % 7]);
    }
  };
  const auto run = [&](int steps) {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) threads.emplace_back(work, t, steps);
    for (std::thread& t : threads) t.join();
  };
  run(kSteps);
  const Stats before = stats();
  run(kSteps);
  const Stats after = stats();
  EXPECT_EQ(wrong.load(), 0);
  const double seen = static_cast<double>(after.ops_seen - before.ops_seen);
  const double replayed =
      static_cast<double>(after.ops_replayed - before.ops_replayed);
  // full() and equal() are ops, too; the five of Forward() are deferred.
  EXPECT_GT(replayed / seen, 0.6);
  EXPECT_LT(after.flush_count("other_thread") -
                before.flush_count("other_thread"),
            kSteps / 20);
}

TEST_F(SharedReadersTest, AWriteFindsPendingReadsOfEveryThread) {
  constexpr int kRounds = 300;
  const at::NoGradGuard no_grad;
  // What the rounds must give: the weights of before the write.
  std::vector<at::Tensor> expected;
  const at::Tensor first = w1_.clone();
  for (int r = 0; r < kRounds; ++r) {
    for (int t = 0; t < kThreads; ++t) expected.push_back(Forward(Input(t, r)));
    w1_.mul_(1.001);
  }
  w1_.copy_(first);
  Enable();
  std::vector<at::Tensor> got(expected.size());
  std::barrier done(kThreads + 1);
  std::barrier written(kThreads + 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const at::NoGradGuard off;
      for (int r = 0; r < kRounds; ++r) {
        got[r * kThreads + t] = Forward(Input(t, r));  // left pending
        done.arrive_and_wait();
        written.arrive_and_wait();
        mark_step();
      }
    });
  }
  for (int r = 0; r < kRounds; ++r) {
    done.arrive_and_wait();
    w1_.mul_(1.001);
    written.arrive_and_wait();
  }
  for (std::thread& t : threads) t.join();
  const Stats s = stats();
  EXPECT_GT(s.ops_replayed, kRounds);
  EXPECT_GT(s.flush_count("other_thread"), kRounds / 2);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(at::equal(got[i], expected[i])) << "result " << i;
  }
}

TEST_F(SharedReadersTest, ABlockThatDiesStaysForItsReaders) {
  constexpr int kRounds = 300;
  const at::NoGradGuard no_grad;
  Enable();
  std::barrier ready(kThreads + 1);
  std::barrier done(kThreads + 1);
  std::barrier dropped(kThreads + 1);
  at::Tensor shared;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const at::NoGradGuard off;
      for (int r = 0; r < kRounds; ++r) {
        ready.arrive_and_wait();
        at::Tensor y;
        // Touched in turns until it counts as shared.
        for (int i = 0; i < 30; ++i) y = at::add(at::mul(shared, 2), shared);
        done.arrive_and_wait();
        dropped.arrive_and_wait();
        wrong += !at::equal(y, at::full({64}, 3.0 * r));
        mark_step();
      }
    });
  }
  for (int r = 0; r < kRounds; ++r) {
    shared = at::full({64}, static_cast<double>(r));
    ready.arrive_and_wait();
    done.arrive_and_wait();
    shared.reset();
    // Whoever takes the memory now must not disturb the readers.
    const at::Tensor other = at::full({64}, -1.0);
    dropped.arrive_and_wait();
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_GT(stats().ops_replayed, kRounds);
}

}  // namespace
}  // namespace tjit

// Threads that hand tensors to one another, with teams of their own, in every
// mode: nobody waits for ever, and results are eager's. Runs under
// TJIT_WATCHDOG, which says who waits for whom.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tjit/tjit.h"

namespace tjit {
namespace {

// A queue between threads; an undefined tensor ends it.
class Channel {
 public:
  void Push(at::Tensor t) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      items_.push_back(std::move(t));
    }
    changed_.notify_one();
  }
  at::Tensor Pop() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !items_.empty(); });
    at::Tensor t = std::move(items_.front());
    items_.pop_front();
    return t;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<at::Tensor> items_;
};

// What each of two threads does to what comes by; sums of columns are shared
// among threads of a team.
at::Tensor Stage(const at::Tensor& t, double factor) {
  const at::Tensor y = at::add(at::mul(t, factor), t, 2);
  return at::add(y, at::sum(y, {0}, /*keepdim=*/true));
}

struct Case {
  Stress stress;
  bool shadow;
  int threads;
};

class HandOverTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    threads_before_ = at::get_num_threads();
    at::set_num_threads(GetParam().threads);
  }
  void TearDown() override {
    disable();
    clear();
    at::set_num_threads(threads_before_);
  }
  static void Enable() {
    Options options;
    options.hot_threshold = 2;
    options.stress = GetParam().stress;
    options.shadow = GetParam().shadow;
    ASSERT_TRUE(enable(options));
  }
  // Runs `program` with tjit on until ops were replayed, 20 times at most: which
  // thread is first at a tensor is chance, and decides what repeats. Always
  // eager's numbers.
  template <class Program>
  void ExpectSame(const Program& program) {
    const std::vector<double> eager = program();
    Enable();
    const Stats before = stats();
    Stats did;
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(program(), eager);
      did = stats() - before;
      if (did.ops_replayed + did.ops_late > 0) break;
    }
    EXPECT_GT(did.ops_replayed + did.ops_late, 0);
    EXPECT_EQ(did.shadow_mismatches, 0);
  }
  const at::Tensor x_ = at::arange(300 * 300).reshape({300, 300}).div(9e4);
  int threads_before_ = 1;
};

std::vector<double> Pipeline(const at::Tensor& x, int rounds) {
  Channel there, back;
  std::thread second([&] {
    for (at::Tensor t = there.Pop(); t.defined(); t = there.Pop()) {
      back.Push(Stage(t, -0.5));
    }
    back.Push(at::Tensor());
  });
  std::vector<double> sums;
  for (int i = 0; i < rounds; ++i) {
    there.Push(Stage(x, 0.25));
    there.Push(Stage(x, 0.75));
    at::Tensor y = at::mul(back.Pop(), back.Pop());
    sums.push_back(Stage(y, 0.125).sum().item<double>());
  }
  there.Push(at::Tensor());
  second.join();
  return sums;
}

TEST_P(HandOverTest, BetweenTwoThreads) {
  ExpectSame([&] { return Pipeline(x_, /*rounds=*/60); });
}

// A thread a step, as std::async makes them: each has a team of its own, whose
// threads ask for their number for the first time.
std::vector<double> ThreadsOfOneStep(const at::Tensor& x, int rounds) {
  std::vector<double> sums;
  for (int i = 0; i < rounds; ++i) {
    const at::Tensor first = Stage(x, 0.5);
    std::future<at::Tensor> later =
        std::async(std::launch::async, [&] { return Stage(first, 0.25); });
    const at::Tensor own = Stage(first, 0.125);
    sums.push_back(at::add(own, later.get()).sum().item<double>());
  }
  return sums;
}

TEST_P(HandOverTest, ThreadsOfOneStep) {
  ExpectSame([&] { return ThreadsOfOneStep(x_, /*rounds=*/40); });
}

// libtorch's pool between ops.
std::vector<double> Launched(const at::Tensor& x, int rounds) {
  std::vector<double> sums;
  for (int i = 0; i < rounds; ++i) {
    const at::Tensor first = Stage(x, 0.5);
    std::promise<at::Tensor> made;
    at::launch([&] { made.set_value(Stage(first, 0.25)); });
    const at::Tensor own = Stage(first, 0.125);
    sums.push_back(
        at::add(own, made.get_future().get()).sum().item<double>());
  }
  return sums;
}

TEST_P(HandOverTest, Launched) {
  ExpectSame([&] { return Launched(x_, /*rounds=*/40); });
}

// The number of threads changes while another thread's ops are pending or run.
std::vector<double> Toggled(const at::Tensor& x, int rounds, int threads) {
  std::vector<double> sums(rounds);
  std::atomic<bool> stops = false;
  std::thread other([&] {
    for (int i = 0; !stops.load(); ++i) at::set_num_threads(1 + i % threads);
  });
  for (int i = 0; i < rounds; ++i) {
    sums[i] = at::add(at::mul(x, 2), x).sum().item<double>();
  }
  stops.store(true);
  other.join();
  return sums;
}

TEST_P(HandOverTest, NumberOfThreadsChanges) {
  Enable();
  const std::vector<double> sums = Toggled(x_, 200, GetParam().threads);
  EXPECT_EQ(sums.size(), 200u);  // the bits depend on when it was changed
}

INSTANTIATE_TEST_SUITE_P(
    Modes, HandOverTest,
    ::testing::Values(Case{Stress::kNone, false, 1}, Case{Stress::kNone, false, 2},
                      Case{Stress::kNone, false, 4}, Case{Stress::kLate, false, 1},
                      Case{Stress::kLate, false, 2}, Case{Stress::kLate, false, 4},
                      Case{Stress::kNone, true, 2}, Case{Stress::kShuffle, false, 2}),
    [](const auto& info) {
      const Case& c = info.param;
      std::string name = c.shadow                      ? "Shadow"
                         : c.stress == Stress::kLate    ? "Late"
                         : c.stress == Stress::kShuffle ? "Shuffle"
                                                        : "Usual";
      return name + std::to_string(c.threads);
    });

// Ops that run while another thread switches tjit on and off, and the ops that
// their kernels call: a sum fills its result first.
TEST(SwitchTest, OpsAreRightWhileAnotherThreadSwitches) {
  std::atomic<bool> ends{false};
  std::int64_t wrong = 0, right = 0;
  std::thread works([&] {
    const at::NoGradGuard no_grad;
    const at::Tensor a = at::ones({64});
    while (!ends) {
      at::Tensor b = at::mul(a, 2);
      b.add_(1);
      ++(b.sum().item<float>() == 192 ? right : wrong);
    }
  });
  const Stats before = stats();
  for (int i = 0; i < 300; ++i) {
    enable();
    std::this_thread::sleep_for(std::chrono::microseconds(400));
    disable();
    std::this_thread::sleep_for(std::chrono::microseconds(400));
  }
  ends = true;
  works.join();
  EXPECT_EQ(wrong, 0) << "of " << wrong + right;
  EXPECT_GT((stats() - before).ops_replayed, 0);
}

}  // namespace
}  // namespace tjit

// Loops on libtorch's threads, threads without a team, and compiled code on
// both, against eager.
#include "runtime/parallel.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <iterator>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/testing.h"
#include "runtime/thread_context.h"
#include "tjit/tjit.h"

namespace tjit::runtime {
namespace {

using Part = std::pair<std::int64_t, std::int64_t>;

// The parts, and the threads that ran them.
struct Seen {
  std::mutex mutex;
  std::set<Part> parts;
  std::set<std::thread::id> threads;
  std::set<int> ids;
  bool is_inside = true;

  void operator()(std::int64_t from, std::int64_t to) {
    const std::lock_guard<std::mutex> lock(mutex);
    parts.emplace(from, to);
    threads.insert(std::this_thread::get_id());
    ids.insert(at::get_thread_num());
    is_inside &= at::in_parallel_region();
  }
};

class ParallelTest : public ::testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(2); }
  void TearDown() override { at::set_num_threads(before_); }

 private:
  const int before_ = at::get_num_threads();
};

// Of this process.
int Threads() {
  struct stat tasks {};
  EXPECT_EQ(stat("/proc/self/task", &tasks), 0);
  return static_cast<int>(tasks.st_nlink) - 2;
}

// The same, with those that are about to end given time to.
int ThreadsInTime(int expected) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (Threads() != expected && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
  }
  return Threads();
}

TEST_F(ParallelTest, HalvesGoToTwoThreads) {
  Seen seen;
  EXPECT_TRUE(HasParallel());
  EXPECT_TRUE(ParallelFor(10, 31, 4, std::ref(seen)));
  EXPECT_EQ(seen.parts, (std::set<Part>{{10, 21}, {21, 31}}));
  EXPECT_EQ(seen.threads.size(), 2);
  EXPECT_EQ(seen.ids, (std::set<int>{0, 1}));
  EXPECT_TRUE(seen.is_inside);
}

TEST_F(ParallelTest, WhatIsNotWorthItStaysHere) {
  for (const auto& [end, grain] : {Part{10, 10}, Part{1, 0}, Part{5, 9}}) {
    Seen seen;
    EXPECT_FALSE(ParallelFor(0, end, grain, std::ref(seen)));
    EXPECT_EQ(seen.parts, (std::set<Part>{{0, end}}));
    EXPECT_EQ(seen.threads, std::set{std::this_thread::get_id()});
  }
  Seen none;
  EXPECT_FALSE(ParallelFor(3, 3, 1, std::ref(none)));
  EXPECT_FALSE(ParallelFor(3, 2, 1, std::ref(none)));
  EXPECT_TRUE(none.parts.empty());
}

TEST_F(ParallelTest, InsideARegionThereIsOneThread) {
  Seen inner;
  EXPECT_TRUE(ParallelFor(0, 2, 1, [&](std::int64_t from, std::int64_t) {
    EXPECT_FALSE(ParallelFor(10 * from, 10 * from + 10, 1, std::ref(inner)));
  }));
  EXPECT_EQ(inner.parts, (std::set<Part>{{0, 10}, {10, 20}}));
}

TEST_F(ParallelTest, ThrowsWhatAPartThrew) {
  for (const std::int64_t bad : {0, 1}) {
    EXPECT_THROW(ParallelFor(0, 2, 1,
                             [&](std::int64_t from, std::int64_t) {
                               if (from == bad) throw std::out_of_range("bad");
                             }),
                 std::out_of_range);
  }
}

TEST_F(ParallelTest, AForkTakesTimeWithSeveralThreadsOnly) {
  EXPECT_GT(ForkNs(), 0);
  at::set_num_threads(1);
  EXPECT_EQ(ForkNs(), 0);
}

TEST_F(ParallelTest, OneThreadHasNoTeam) {
  ParallelFor(0, 2, 1, [](std::int64_t, std::int64_t) {});
  const int before = Threads();
  std::thread([&] {
    {
      const OneThread alone;
      EXPECT_EQ(at::get_num_threads(), 1);
      // Others are not touched.
      std::thread([] { EXPECT_EQ(at::get_num_threads(), 2); }).join();
      Seen seen;
      EXPECT_FALSE(ParallelFor(0, 100, 1, std::ref(seen)));
      at::ones({1 << 20}).add_(1).tanh_();
      at::mm(at::ones({500, 500}), at::ones({500, 500}));
      EXPECT_EQ(ThreadsInTime(before + 1), before + 1);
    }
    EXPECT_EQ(at::get_num_threads(), 2);
  }).join();
  EXPECT_EQ(at::get_num_threads(), 2);
}

TEST_F(ParallelTest, ATeamForOneThreadIsGoneBehindIt) {
  ParallelFor(0, 2, 1, [](std::int64_t, std::int64_t) {});
  const int before = Threads();
  std::thread([&] {
    const OneThread alone;
    Seen seen;
    bool is_off = false;
    RunWithTeam([&] {
      is_off = t_context.off;
      EXPECT_EQ(at::get_num_threads(), 2);
      EXPECT_TRUE(ParallelFor(0, 2, 1, std::ref(seen)));
    });
    EXPECT_TRUE(is_off);
    EXPECT_EQ(seen.threads.size(), 2);
    EXPECT_EQ(seen.threads.count(std::this_thread::get_id()), 0);
    EXPECT_EQ(ThreadsInTime(before + 1), before + 1);
    EXPECT_THROW(RunWithTeam([] { throw std::out_of_range("bad"); }),
                 std::out_of_range);
  }).join();
  // Who has a team, needs none.
  std::thread::id id;
  RunWithTeam([&] { id = std::this_thread::get_id(); });
  EXPECT_EQ(id, std::this_thread::get_id());
}

// libgomp would wait in it for the other thread, for ever.
TEST_F(ParallelTest, AChildRunsLoopsAlone) {
  HandleForksInParallel();
  ASSERT_TRUE(ParallelFor(0, 2, 1, [](std::int64_t, std::int64_t) {}));
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    Seen seen;
    const bool shared = ParallelFor(0, 2, 1, std::ref(seen));
    _exit(!shared && seen.parts == std::set<Part>{{0, 2}} ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(ParallelFor(0, 2, 1, [](std::int64_t, std::int64_t) {}));
}

// `step` by machine code against eager, both with two threads. Returns the
// loops that were shared.
template <class Step>
std::int64_t SharedLoops(const Step& step, std::int64_t* fused) {
  const at::Tensor eager = step();
  Options options;
  options.backend = Backend::kLlvm;
  options.compile_all = true;
  options.hot_threshold = 2;
  EXPECT_TRUE(enable(options));
  clear();
  const std::int64_t shared = tjit::testing::LoopsShared();
  const std::int64_t before = stats().steps_fused;
  for (int i = 0; i < 20; ++i) {
    const at::Tensor result = step();
    mark_step();
    EXPECT_EQ(std::memcmp(result.const_data_ptr(), eager.const_data_ptr(),
                          eager.nbytes()),
              0)
        << "turn " << i;
    tjit::testing::WaitForCompiler();
  }
  *fused = stats().steps_fused - before;
  disable();
  return tjit::testing::LoopsShared() - shared;
}

class SharedLoopsTest : public ParallelTest {};

TEST_F(SharedLoopsTest, LargeOnes) {
  const at::Tensor x = at::randn({3000, 700}), b = at::randn({700});
  std::int64_t fused = 0;
  const std::int64_t shared =
      SharedLoops([&] { return at::gelu((x + b) * x).tanh().exp(); }, &fused);
  EXPECT_GE(fused, 5 * 10);
  EXPECT_GE(shared, 10);
}

// With the work of dozens of ops for an element less is worth it, too; ATen's
// own threshold is 32,768.
TEST_F(SharedLoopsTest, LongOnesOfFewerElements) {
  const at::Tensor x = at::randn({16000});
  const auto step = [&] {
    at::Tensor y = x;
    for (int i = 0; i < 12; ++i) y = at::erf(at::sin(y) * y);
    return y;
  };
  std::int64_t fused = 0;
  EXPECT_GE(SharedLoops(step, &fused), 10);
  EXPECT_GE(fused, 36 * 10);
}

// Functions whose bits depend on where eager's threads begin, in parts that
// begin elsewhere: a row, and vectors and what is left behind them.
TEST_F(SharedLoopsTest, OfFunctionsThatDependOnThePlace) {
  using Function = at::Tensor (*)(const at::Tensor&);
  const Function functions[] = {
      [](const at::Tensor& x) { return at::mish(x); },
      [](const at::Tensor& x) { return at::silu(x); },
      [](const at::Tensor& x) { return at::softplus(x); },
      [](const at::Tensor& x) { return at::gelu(x); },
      [](const at::Tensor& x) { return at::gelu(x, "tanh"); },
      [](const at::Tensor& x) { return at::sigmoid(x); },
      [](const at::Tensor& x) { return at::pow(x, 1.7); },
      [](const at::Tensor& x) { return at::atan2(x, x); },
      [](const at::Tensor& x) { return at::maximum(x, x); },
  };
  tjit::testing::ShareAllLoops(true);
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    for (const auto& sizes : {std::vector<std::int64_t>{40'062},
                              std::vector<std::int64_t>{331, 303}}) {
      const at::Tensor x = at::rand(sizes) * 4 - 1;
      for (std::size_t i = 0; i < std::size(functions); ++i) {
        SCOPED_TRACE(i);
        std::int64_t fused = 0;
        const auto step = [&] { return functions[i](x * 1.5) + x; };
        EXPECT_GE(SharedLoops(step, &fused), 10);
        EXPECT_GE(fused, 3 * 10);
      }
    }
  }
  tjit::testing::ShareAllLoops(false);
}

TEST_F(SharedLoopsTest, NotSmallOnes) {
  const at::Tensor x = at::randn({64, 8});
  std::int64_t fused = 0;
  EXPECT_EQ(SharedLoops([&] { return (x * x + x).exp(); }, &fused), 0);
  EXPECT_GE(fused, 3 * 10);
}

TEST_F(SharedLoopsTest, NotWithOneThread) {
  at::set_num_threads(1);
  const at::Tensor x = at::randn({3000, 700});
  std::int64_t fused = 0;
  EXPECT_EQ(SharedLoops([&] { return (x * x + x).exp(); }, &fused), 0);
  EXPECT_GE(fused, 3 * 10);
}

// Denormals are zeros on the thread that asked for it; others have been there
// before. Only eager knows which elements are theirs.
TEST_F(SharedLoopsTest, NotWithAnArithmeticOfOneThread) {
  const at::Tensor x = at::full({100'000}, 1e-39F);
  at::ones({100'000}).add_(1);  // the team is there
  const unsigned before = _mm_getcsr();
  ASSERT_TRUE(at::globalContext().setFlushDenormal(true));
  const auto step = [&] { return x.mul(0.5).add(x); };
  const at::Tensor eager = step();
  const auto zeros = (eager == 0).sum().item<std::int64_t>();
  std::int64_t fused = 0;
  EXPECT_EQ(SharedLoops(step, &fused), 0);
  EXPECT_EQ(fused, 0);
  _mm_setcsr(before);
  EXPECT_GT(zeros, 0);
  EXPECT_LT(zeros, x.numel()) << "both threads flush here; nothing is proven";
}

// What the worker does must leave no second team behind: Note [Teams].
TEST_F(SharedLoopsTest, TheWorkerHasNoTeam) {
  const at::Tensor x = at::randn({4, 90, 64}), w = at::randn({64});
  at::ones({100'000}).add_(1);
  std::int64_t fused = 0;
  SharedLoops([&] { return at::log_softmax(x * w + w, 1).exp().tanh(); },
              &fused);
  EXPECT_GE(fused, 5 * 10);
  EXPECT_EQ(ThreadsInTime(3), 3) << "this one, its team of one, the worker";
}

}  // namespace
}  // namespace tjit::runtime

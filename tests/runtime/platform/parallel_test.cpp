// Loops on libtorch's threads, threads without a team, and compiled code on
// both, against eager.
#include "runtime/platform/parallel.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/platform/fp_environment.h"
#include "runtime/platform/thread_context.h"
#include "runtime/testing.h"
#include "runtime/tier2/tier2.h"
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

// Threads of this name; those of a team have that of the thread it is of.
int ThreadsCalled(const std::string& name) {
  int count = 0;
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(task.path() / "comm");
    std::string line;
    count += std::getline(comm, line) && line == name;
  }
  return count;
}

class FlushDenormals {
 public:
  FlushDenormals() : before_(_mm_getcsr()) {
    EXPECT_TRUE(at::globalContext().setFlushDenormal(true));
  }
  ~FlushDenormals() { _mm_setcsr(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  const unsigned before_;
};

// On a new thread: its team's threads flush denormals, it does not.
void MakeTeamThatFlushes() {
  ASSERT_TRUE(at::globalContext().setFlushDenormal(true));
  at::ones({100'000}).add_(1);
  ASSERT_TRUE(at::globalContext().setFlushDenormal(false));
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

// Some loops take as long as on a machine that others keep busy.
TEST_F(ParallelTest, AForkIsMeasuredInTime) {
  std::thread([] {
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < 1000; ++i) ForkNs();
    EXPECT_LT(std::chrono::steady_clock::now() - began,
              std::chrono::seconds(1));
  }).join();
}

TEST_F(ParallelTest, ThreadsShareBehindEager) {
  EXPECT_TRUE(MayShare()) << "the main thread";
  std::thread([] {
    EXPECT_FALSE(InRegion());
    EXPECT_FALSE(MayShare());
    at::ones({100}).add_(1);
    EXPECT_FALSE(MayShare());
    at::ones({100'000}).add_(1);
    EXPECT_TRUE(MayShare());
  }).join();
}

// Where a large op runs on one thread nobody makes a team. This op asks whether
// it is inside a region before it asks for the number.
TEST_F(ParallelTest, OneThreadIsNoRegion) {
  std::thread([] {
    at::set_num_threads(1);
    at::softmax(at::ones({2000, 100}), 1);
    at::set_num_threads(2);
    EXPECT_FALSE(MayShare());
    at::softmax(at::ones({2000, 100}), 1);
    EXPECT_TRUE(MayShare());
  }).join();
}

// A team computes as the thread did that called for it.
TEST_F(ParallelTest, AnOddTeamIsSeen) {
  EXPECT_FALSE(HasOddTeam());
  std::thread([] {
    MakeTeamThatFlushes();
    EXPECT_TRUE(HasOddTeam());
    EXPECT_GT(ForkNs(), std::int64_t{1} << 60) << "never worth it";
    at::set_num_threads(1);
    EXPECT_FALSE(HasOddTeam());
    at::set_num_threads(2);
    EXPECT_TRUE(HasOddTeam());
  }).join();
}

TEST_F(ParallelTest, ATeamIsOddToItsThread) {
  std::thread([] {
    const FlushDenormals flush;
    at::ones({100'000}).add_(1);
    EXPECT_FALSE(HasOddTeam()) << "all flush";
    const unsigned flushing = _mm_getcsr();
    _mm_setcsr(kUsualArithmetic);
    EXPECT_TRUE(HasOddTeam());
    _mm_setcsr(flushing);
    at::set_num_threads(1);
    EXPECT_FALSE(HasOddTeam());
    at::set_num_threads(2);
    _mm_setcsr(kUsualArithmetic);
    EXPECT_TRUE(HasOddTeam());
  }).join();
}

// In parallel regions of the program's own, which libtorch knows nothing of,
// there is no team to be asked. What is found there does not hold outside.
TEST_F(ParallelTest, NobodyIsAskedInTheProgramsRegions) {
  using Region = void(void (*)(void*), void*, unsigned, unsigned);
  auto* const region = reinterpret_cast<Region*>(
      dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  ASSERT_NE(region, nullptr);
  std::thread([&] {
    MakeTeamThatFlushes();
    auto id = std::this_thread::get_id();
    region(
        [](void* of_caller) {
          if (std::this_thread::get_id() !=
              *static_cast<std::thread::id*>(of_caller)) {
            return;
          }
          EXPECT_EQ(at::get_num_threads(), 2);
          EXPECT_FALSE(HasOddTeam());
          EXPECT_GT(ForkNs(), std::int64_t{1} << 60) << "never worth it";
        },
        &id, 2, 0);
    EXPECT_TRUE(HasOddTeam());
    ASSERT_TRUE(at::globalContext().setFlushDenormal(true));
    EXPECT_FALSE(HasOddTeam()) << "all flush";
    EXPECT_LT(ForkNs(), std::int64_t{1} << 60) << "measured, outside";
  }).join();
}

// A loop of fewer threads ends the others; their successors are asked anew.
TEST_F(ParallelTest, NewThreadsOfATeamAreAsked) {
  std::thread([] {
    at::set_num_threads(3);
    at::ones({200'000}).add_(1);
    EXPECT_FALSE(HasOddTeam());
    at::set_num_threads(2);
    at::ones({200'000}).add_(1);
    at::set_num_threads(3);
    MakeTeamThatFlushes();
    EXPECT_TRUE(HasOddTeam());
  }).join();
}

// What it computes does not depend on who happens to call for it first.
TEST_F(ParallelTest, TheWorkerHasTheUsualArithmetic) {
  auto* const tier2 = new Tier2;  // its own worker
  std::promise<unsigned> arithmetic;
  std::thread([&] {
    const FlushDenormals flush;
    EXPECT_TRUE(tier2->worker().Post([&](const std::atomic<bool>&) {
      arithmetic.set_value(Arithmetic());
      return true;
    }));
  }).join();
  EXPECT_EQ(arithmetic.get_future().get(), kUsualArithmetic);
  tier2->worker().Stop();
}

// What a thread asks first sets its number, which waits for nobody's ops. Nor
// does its arithmetic: run here, they would make this thread's team before.
TEST_F(ParallelTest, NewThreadsFlushNothing) {
  Options options;
  options.backend = Backend::kReplay;
  options.hot_threshold = 2;
  ASSERT_TRUE(enable(options));
  clear();
  at::Tensor x;
  const auto step = [&] { x = at::ones({10}).add(1).mul(2); };
  for (int i = 0; i < 10; ++i) {
    step();
    mark_step();
  }
  const std::int64_t deferred = stats().ops_deferred;
  step();
  EXPECT_GT(stats().ops_deferred, deferred);
  const std::int64_t before = stats().flush_count();
  std::thread([] {
    const OneThread alone;
    RunWithTeam([] { EXPECT_EQ(at::get_num_threads(), 2); });
  }).join();
  std::thread([] { const FlushDenormals flush; }).join();
  EXPECT_EQ(stats().flush_count(), before);
  EXPECT_EQ(x.sum().item<float>(), 40);
  EXPECT_GT(stats().flush_count(), before) << "nothing was pending";
  disable();
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

class SharedLoopsTest : public ParallelTest {
 protected:
  SharedLoopsTest() { AssumeForkNs(1000); }
  ~SharedLoopsTest() override {
    AssumeForkNs(0);
    tjit::testing::ShareAllLoops(false);
  }
};

// By eager as by code: a chain long enough for two threads.
at::Tensor LongChain(const at::Tensor& x) {
  at::Tensor y = x;
  for (int i = 0; i < 12; ++i) y = at::erf(at::sin(y) * y);
  return y;
}

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
  std::int64_t fused = 0;
  EXPECT_GE(SharedLoops([&] { return LongChain(x); }, &fused), 10);
  EXPECT_GE(fused, 36 * 10);
}

// On a new thread: all of `step` is machine code, and its loops are shared once
// eager has shared one.
template <class Step>
void ExpectSharedBehindEager(const Step& step, std::int64_t least_fused) {
  std::thread([&] {
    std::int64_t fused = 0;
    EXPECT_EQ(SharedLoops(step, &fused), 0);
    EXPECT_GE(fused, least_fused);
    at::ones({100'000}).add_(1);
    EXPECT_GE(SharedLoops(step, &fused), 10);
  }).join();
}

// A server's threads would get a team each that eager never makes.
TEST_F(SharedLoopsTest, NotBeforeEagerOnAnotherThread) {
  const at::Tensor x = at::rand({16000}) + 1;
  const auto step = [&] {  // eager shares sin() from 2,048 elements on
    at::Tensor y = x;
    for (int i = 0; i < 12; ++i) y = x / (x / y + y);
    return y;
  };
  ExpectSharedBehindEager(step, 36 * 10);
}

// Loops that run block by block, none of which has so many elements as all.
TEST_F(SharedLoopsTest, NorChainsOfThem) {
  const at::Tensor x = at::rand({5'400, 6}, at::kDouble) + 1;
  const auto step = [&] {
    const at::Tensor s = x.select(1, 0) / x.select(1, 1) + x.select(1, 2);
    at::Tensor t = s;
    for (int i = 0; i < 6; ++i) t = s / (t / s + t);
    at::Tensor y = x * t.unsqueeze(1);
    for (int i = 0; i < 6; ++i) y = x / (y / x + y);
    return y;
  };
  ExpectSharedBehindEager(step, 39 * 10);
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
  const auto step = [&] { return x.mul(0.5).add(x); };
  std::int64_t fused = 0, zeros = 0;
  {
    const FlushDenormals flush;
    zeros = (step() == 0).sum().item<std::int64_t>();
    EXPECT_EQ(SharedLoops(step, &fused), 0);
  }
  EXPECT_EQ(fused, 0);
  EXPECT_GT(zeros, 0);
  EXPECT_LT(zeros, x.numel()) << "both threads flush here; nothing is proven";
}

// The same the other way about: the team flushes, the thread does not. The
// larger one eager shares, the smaller one only code would.
TEST_F(SharedLoopsTest, NotWithATeamOfAnotherArithmetic) {
  for (const std::int64_t n : {100'000, 20'000}) {
    SCOPED_TRACE(n);
    const at::Tensor x = at::full({n}, 1e-39F);
    const auto step = [&] {
      at::Tensor y = x;
      for (int i = 0; i < 12; ++i) y = at::erf(at::sin(y) * 0.9) + y;
      return y;
    };
    std::thread([&] {
      MakeTeamThatFlushes();
      std::int64_t fused = 0;
      EXPECT_EQ(SharedLoops(step, &fused), 0);
      EXPECT_EQ(fused, 0);
    }).join();
    std::int64_t fused = 0;
    EXPECT_GE(SharedLoops(step, &fused), 10);
    EXPECT_GE(fused, 48 * 10) << "the same with an ordinary team";
  }
}

// Library calls of our own are cut as eager's.
TEST_F(SharedLoopsTest, PoolingBeforeAnOddTeam) {
  const at::Tensor x = at::arange(1, 3 * 64 + 1).view({3, 8, 8}) * 1e-42F;
  const auto step = [&] {
    return at::max_pool2d(x * 1, {2, 2}, {2, 2}) + x[0][0][0];
  };
  std::thread([&] {
    MakeTeamThatFlushes();
    const at::Tensor eager = step();
    Options options;
    options.backend = Backend::kReplay;
    options.hot_threshold = 2;
    ASSERT_TRUE(enable(options));
    clear();
    const std::int64_t before = stats().ops_replayed;
    for (int i = 0; i < 10; ++i) {
      const at::Tensor result = step();
      mark_step();
      EXPECT_TRUE(at::equal(result.view(at::kInt), eager.view(at::kInt))) << i;
    }
    EXPECT_GE(stats().ops_replayed - before, 3 * 5);
    disable();
  }).join();
}

// What the worker does must leave no second team behind: Note [Teams].
// New probes: nothing of them is kept on disk.
TEST_F(SharedLoopsTest, TheWorkerHasNoTeam) {
  const at::Tensor x = at::randn({4, 90, 64}), w = at::randn({64});
  const auto step = [&] {
    return at::log_softmax(x * w + w, 1).exp().tanh().mul(x.gt(0));
  };
  Options options;
  options.backend = Backend::kLlvm;
  options.compile_all = true;
  options.hot_threshold = 2;
  options.cache_dir = "off";
  ASSERT_TRUE(enable(options));
  clear();
  const std::int64_t before = stats().steps_fused;
  int most = 0;
  for (int i = 0; i < 10; ++i) {
    const at::Tensor kept = step();
    mark_step();
    tjit::testing::WaitForCompiler();
    most = std::max(most, ThreadsCalled("tjit-compile"));
  }
  // Those of a thread that has ended may be on their way out.
  for (int i = 0; most > 1 && i < 1000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    most = ThreadsCalled("tjit-compile");
  }
  EXPECT_EQ(most, 1);
  EXPECT_GE(stats().steps_fused - before, 3 * 5);
  disable();
}

}  // namespace
}  // namespace tjit::runtime

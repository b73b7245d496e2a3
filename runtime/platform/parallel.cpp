#include "runtime/platform/parallel.h"

#include <ATen/Parallel.h>
#include <c10/util/ParallelGuard.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <limits>
#include <utility>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#include "runtime/platform/fp_environment.h"
#include "runtime/platform/libtorch_symbol.h"
#include "runtime/platform/thread_context.h"

namespace tjit::runtime {
namespace {

// Whether this process was forked by a thread that may have had a team.
std::atomic<bool> g_had_threads = false, g_is_orphan = false;

// Instead of a measured one; 0: none.
std::atomic<std::int64_t> g_fork_ns = 0;

// Of any thread's arithmetic, so that teams may be odd.
std::atomic<bool> g_has_changed = false;

thread_local bool t_is_alone = false;  // in a OneThread

// What HasOddTeam() found; each thread has a team of its own.
struct AskedTeam {
  int threads = 0;
  unsigned arithmetic = 0;  // of the thread
  bool is_odd = false;
  enum : signed char { kUnknown, kNo, kYes } is_main = kUnknown;
};
thread_local AskedTeam t_asked;

// What the OpenMP library exports that libtorch calls, whoever made it.
struct OpenMp {
  using Region = void (*)(void (*body)(void*), void* data, unsigned threads,
                          unsigned flags);
  Region region = nullptr;
  int (*count)() = nullptr;
  int (*index)() = nullptr;
  void (*set_threads)(int) = nullptr;
  bool is_whole = false;  // all there, and of one library

  static const OpenMp& Get() {
    static const OpenMp found;
    return found;
  }

 private:
  OpenMp() {
    is_whole = AT_PARALLEL_OPENMP && Find("GOMP_parallel", &region) &&
               Find("omp_get_num_threads", &count) &&
               Find("omp_get_thread_num", &index) &&
               Find("omp_set_num_threads", &set_threads);
  }

  // As libtorch's own calls are bound: a preloaded or linked OpenMP library
  // comes before the one that libtorch brings.
  template <class Function>
  bool Find(const char* name, Function** function) {
    void* found = dlsym(RTLD_DEFAULT, name);
    if (found == nullptr) found = LibtorchSymbol(name);
    Dl_info info{};
    if (found == nullptr || dladdr(found, &info) == 0) return false;
    if (library_ == nullptr) library_ = info.dli_fbase;
    *function = reinterpret_cast<Function*>(found);
    return info.dli_fbase == library_;
  }

  const void* library_ = nullptr;
};

// For the calling thread; returns what it had. Null: libtorch has no MKL.
auto SetMklThreads() {
  static const auto found = reinterpret_cast<int (*)(int)>(
      LibtorchSymbol("MKL_Set_Num_Threads_Local"));
  return found;
}

// ThreadSanitizer does not see libgomp's barriers: what the threads of a region
// get, and what they leave.
#if defined(__SANITIZE_THREAD__)
void RecordLeft(void* loop) { __tsan_release(loop); }
void RecordGot(void* loop) { __tsan_acquire(loop); }
#else
void RecordLeft(void*) {}
void RecordGot(void*) {}
#endif

struct Loop {
  std::int64_t begin, end, grain;
  absl::FunctionRef<void(std::int64_t, std::int64_t)> run;
  std::atomic_flag has_error = ATOMIC_FLAG_INIT;
  std::exception_ptr error = nullptr;
  std::atomic<bool> is_shared = false;

  void Part(int index, int threads) {
    std::int64_t parts = threads;
    if (grain > 0) parts = std::min(parts, (end - begin + grain - 1) / grain);
    const std::int64_t size = (end - begin + parts - 1) / parts;
    const std::int64_t from = begin + index * size;
    if (from >= end) return;
    if (index > 0) is_shared.store(true, std::memory_order_relaxed);
    const KernelScope inside;  // whoever waits for this part may be flushing
    try {
      const at::internal::ThreadIdGuard id(index);
      const c10::ParallelGuard guard(true);
      run(from, std::min(end, from + size));
    } catch (...) {
      if (!has_error.test_and_set()) error = std::current_exception();
    }
  }
};

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// The median of loops with a little time between them, as in a program: right
// behind another one it takes 0.7 us, but 60 instead of 1 us a few microseconds
// later, if nobody spins (Note [Teams]). kNever: this thread has no team here.
std::int64_t MeasureFork(int threads) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kStarts = 4;  // to start and wake the threads
  constexpr std::chrono::microseconds kMost{400}, kBetween{5};
  const auto share = [threads] {
    return ParallelFor(0, threads, 1, [](std::int64_t, std::int64_t) {});
  };
  if (!share()) return kNever;
  std::array<std::int64_t, 24> took{};
  std::size_t turns = 0;
  const auto began = Clock::now();
  for (auto last = began; turns < took.size() && last - began < kMost;) {
    Clock::time_point now = Clock::now();
    while (now - last < kBetween) now = Clock::now();
    share();
    last = Clock::now();
    took[turns++] = std::chrono::nanoseconds(last - now).count();
  }
  const auto first = took.begin() + std::min(kStarts, turns - 1);
  const auto end = took.begin() + turns;
  const auto median = first + (end - first) / 2;
  std::nth_element(first, median, end);
  return std::max<std::int64_t>(*median, 1);
}

}  // namespace

int ThreadsOfThisThread() {
  ++t_context.inside;
  const int threads = at::get_num_threads();
  --t_context.inside;
  return threads;
}

bool HasParallel() { return OpenMp::Get().is_whole; }

bool ParallelFor(std::int64_t begin, std::int64_t end, std::int64_t grain,
                 absl::FunctionRef<void(std::int64_t, std::int64_t)> run) {
  if (begin >= end) return false;
  const bool is_parallel = end - begin > std::max<std::int64_t>(grain, 1) &&
                           at::get_num_threads() > 1 && HasParallel() &&
                           !g_is_orphan.load(std::memory_order_relaxed) &&
                           !at::in_parallel_region();
  if (!is_parallel) {
    const at::internal::ThreadIdGuard id(0);
    const c10::ParallelGuard guard(true);
    run(begin, end);
    return false;
  }
  Loop loop{begin, end, grain, run};
  RecordLeft(&loop);
  OpenMp::Get().region(
      [](void* data) {
        const OpenMp& openmp = OpenMp::Get();
        RecordGot(data);
        static_cast<Loop*>(data)->Part(openmp.index(), openmp.count());
        RecordLeft(data);
      },
      &loop, 0, 0);
  RecordGot(&loop);
  if (loop.error) std::rethrow_exception(loop.error);
  return loop.is_shared.load(std::memory_order_relaxed);
}

void HandleForksInParallel() {
  pthread_atfork(
      [] {
        constexpr nlink_t kOfOneThread = 3;  // ".", its name above, a thread
        struct stat tasks {};
        g_had_threads.store(stat("/proc/self/task", &tasks) != 0 ||
                            tasks.st_nlink > kOfOneThread);
      },
      nullptr,
      [] {
        if (g_had_threads.load()) g_is_orphan.store(true);
      });
}

bool MayShare() {
  AskedTeam& asked =
      t_asked;  // no variable of its own: thread storage is scarce
  if (asked.is_main == AskedTeam::kUnknown) [[unlikely]] {
    asked.is_main = gettid() == getpid() ? AskedTeam::kYes : AskedTeam::kNo;
  }
  return asked.is_main == AskedTeam::kYes || t_context.had_region;
}

bool HasOddTeam() {
  const int threads = at::get_num_threads();
  if (threads == 1) return false;
  if (!HasParallel()) return g_has_changed.load(std::memory_order_relaxed);
  const unsigned arithmetic = Arithmetic();
  AskedTeam& asked = t_asked;
  const bool is_known =
      threads == asked.threads && arithmetic == asked.arithmetic;
  if (is_known || InRegion()) return asked.is_odd;
  std::atomic<bool> is_odd = false;
  const bool is_asked =
      ParallelFor(0, threads, 1, [&](std::int64_t, std::int64_t) {
        if (Arithmetic() != arithmetic) is_odd.store(true);
      });
  if (!is_asked) return false;
  asked = {threads, arithmetic, is_odd.load()};
  return asked.is_odd;
}

void ForgetTeam() {
  t_asked = {};
  g_has_changed.store(true, std::memory_order_relaxed);
}

std::int64_t ForkNs() {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t kBusy = 100'000;  // longer: others have the processors
  constexpr std::chrono::seconds kAgain{1};
  constexpr std::chrono::seconds kAtLatest{60};  // the process may have slept
  constexpr int kRarely = 256;  // times what asking took
  struct Measured {
    int threads = 1;
    std::int64_t ns = 0;
    Clock::time_point until = Clock::time_point::max();
  };
  thread_local Measured measured;
  const int threads = at::get_num_threads();
  if (threads == 1) return 0;
  if (HasOddTeam()) return kNever;
  const std::int64_t assumed = g_fork_ns.load(std::memory_order_relaxed);
  if (assumed != 0) return assumed;
  const bool is_old = threads != measured.threads ||
                      (measured.ns > kBusy && Clock::now() > measured.until);
  if (is_old) {
    const Clock::time_point began = Clock::now();
    const std::int64_t ns = MeasureFork(threads);
    if (ns == kNever) return kNever;
    const Clock::time_point now = Clock::now();
    const Clock::duration pause = kRarely * (now - began);
    measured = {threads, ns,
                now + std::clamp<Clock::duration>(pause, kAgain, kAtLatest)};
  }
  return measured.ns;
}

void AssumeForkNs(std::int64_t ns) { g_fork_ns.store(ns); }

// Not at::set_num_threads(), which says it for all new threads. MKL has a
// number of its own for each thread, 0: as the process.
OneThread::OneThread()
    : before_(ThreadsOfThisThread()),
      was_alone_(std::exchange(t_is_alone, true)) {
  if (HasParallel()) OpenMp::Get().set_threads(1);
  if (SetMklThreads() != nullptr) mkl_before_ = SetMklThreads()(1);
}

OneThread::~OneThread() {
  if (SetMklThreads() != nullptr) SetMklThreads()(mkl_before_);
  if (HasParallel()) OpenMp::Get().set_threads(before_);
  t_is_alone = was_alone_;
}

void RunWithTeam(absl::FunctionRef<void()> run) {
  if (!t_is_alone) return run();
  std::async(std::launch::async, [&] {
    t_context.off = true;
    ThreadsOfThisThread();
    run();
  }).get();
}

}  // namespace tjit::runtime

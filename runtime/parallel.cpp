#include "runtime/parallel.h"

#include <ATen/Parallel.h>
#include <c10/util/ParallelGuard.h>
#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <future>

#include "runtime/libtorch_symbol.h"
#include "runtime/thread_context.h"

namespace tjit::runtime {
namespace {

// Whether this process was forked by a thread that may have had a team.
std::atomic<bool> g_had_threads = false, g_is_orphan = false;

// What this thread had before its OneThread; 0: it has none.
thread_local int t_had = 0;

// What libtorch's OpenMP library exports, whoever made it.
struct OpenMp {
  using Region = void (*)(void (*body)(void*), void* data, unsigned threads,
                          unsigned flags);
  const Region region =
      reinterpret_cast<Region>(LibtorchSymbol("GOMP_parallel"));
  int (*const count)() =
      reinterpret_cast<int (*)()>(LibtorchSymbol("omp_get_num_threads"));
  int (*const index)() =
      reinterpret_cast<int (*)()>(LibtorchSymbol("omp_get_thread_num"));
  void (*const set_threads)(int) =
      reinterpret_cast<void (*)(int)>(LibtorchSymbol("omp_set_num_threads"));

  bool is_whole() const {
    return AT_PARALLEL_OPENMP && region != nullptr && count != nullptr &&
           index != nullptr && set_threads != nullptr;
  }

  static const OpenMp& Get() {
    static const OpenMp found;
    return found;
  }
};

// For the calling thread; returns what it had. Null: libtorch has no MKL.
auto SetMklThreads() {
  static const auto found = reinterpret_cast<int (*)(int)>(
      LibtorchSymbol("MKL_Set_Num_Threads_Local"));
  return found;
}

struct Loop {
  std::int64_t begin, end, grain;
  absl::FunctionRef<void(std::int64_t, std::int64_t)> run;
  std::atomic_flag has_error = ATOMIC_FLAG_INIT;
  std::exception_ptr error;

  void Part(int index, int threads) {
    std::int64_t parts = threads;
    if (grain > 0) parts = std::min(parts, (end - begin + grain - 1) / grain);
    const std::int64_t size = (end - begin + parts - 1) / parts;
    const std::int64_t from = begin + index * size;
    if (from >= end) return;
    try {
      const at::internal::ThreadIdGuard id(index);
      const c10::ParallelGuard guard(true);
      run(from, std::min(end, from + size));
    } catch (...) {
      if (!has_error.test_and_set()) error = std::current_exception();
    }
  }
};

std::int64_t MeasureFork(int threads) {
  constexpr int kTurns = 24;  // the first ones start and wake the threads
  std::int64_t best = 0;
  for (int i = 0; i < kTurns; ++i) {
    const auto began = std::chrono::steady_clock::now();
    ParallelFor(0, threads, 1, [](std::int64_t, std::int64_t) {});
    const std::chrono::nanoseconds took =
        std::chrono::steady_clock::now() - began;
    best = i == 0 ? took.count() : std::min(best, took.count());
  }
  return std::max<std::int64_t>(best, 1);
}

}  // namespace

bool HasParallel() { return OpenMp::Get().is_whole(); }

bool ParallelFor(std::int64_t begin, std::int64_t end, std::int64_t grain,
                 absl::FunctionRef<void(std::int64_t, std::int64_t)> run) {
  if (begin >= end) return false;
  const bool is_parallel = end - begin > std::max<std::int64_t>(grain, 1) &&
                           !at::in_parallel_region() &&
                           at::get_num_threads() > 1 && HasParallel() &&
                           !g_is_orphan.load(std::memory_order_relaxed);
  if (!is_parallel) {
    const at::internal::ThreadIdGuard id(0);
    const c10::ParallelGuard guard(true);
    run(begin, end);
    return false;
  }
  Loop loop{begin, end, grain, run, ATOMIC_FLAG_INIT, nullptr};
  OpenMp::Get().region(
      [](void* data) {
        const OpenMp& openmp = OpenMp::Get();
        static_cast<Loop*>(data)->Part(openmp.index(), openmp.count());
      },
      &loop, 0, 0);
  if (loop.error) std::rethrow_exception(loop.error);
  return true;
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

std::int64_t ForkNs() {
  struct Measured {
    int threads = 1;
    std::int64_t ns = 0;
  };
  thread_local Measured measured;  // each thread has a team of its own
  const int threads = at::get_num_threads();
  if (threads != measured.threads) {
    measured = {threads, threads > 1 ? MeasureFork(threads) : 0};
  }
  return measured.ns;
}

// Not at::set_num_threads(), which says it for all new threads. MKL has a
// number of its own for each thread, 0: as the process.
OneThread::OneThread() : before_(at::get_num_threads()), had_before_(t_had) {
  if (t_had == 0) t_had = before_;
  if (HasParallel()) OpenMp::Get().set_threads(1);
  if (SetMklThreads() != nullptr) mkl_before_ = SetMklThreads()(1);
}

OneThread::~OneThread() {
  if (SetMklThreads() != nullptr) SetMklThreads()(mkl_before_);
  if (HasParallel()) OpenMp::Get().set_threads(before_);
  t_had = had_before_;
}

void RunWithTeam(absl::FunctionRef<void()> run) {
  if (t_had <= 1) return run();
  std::async(std::launch::async, [&] {
    t_context.off = true;
    run();
  }).get();
}

}  // namespace tjit::runtime

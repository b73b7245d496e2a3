// A program with an OpenMP library in front of the one that libtorch brings, as
// a preloaded one is: this program's own functions, which hand on to the next.
// Made twice: with all of them (OWN_OPENMP_IS_WHOLE), and with the first alone.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "runtime/platform/parallel.h"

namespace {

std::atomic<int> g_regions = 0;

template <class Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void GOMP_parallel(void (*body)(void*),
                                                          void* data,
                                                          unsigned threads,
                                                          unsigned flags) {
  ++g_regions;
  static const auto next = Next<decltype(GOMP_parallel)>("GOMP_parallel");
  next(body, data, threads, flags);
}

#ifdef OWN_OPENMP_IS_WHOLE
__attribute__((visibility("default"))) int omp_get_num_threads() {
  static const auto next = Next<int()>("omp_get_num_threads");
  return next();
}
__attribute__((visibility("default"))) int omp_get_thread_num() {
  static const auto next = Next<int()>("omp_get_thread_num");
  return next();
}
__attribute__((visibility("default"))) void omp_set_num_threads(int threads) {
  static const auto next = Next<void(int)>("omp_set_num_threads");
  next(threads);
}
#endif

}  // extern "C"

namespace tjit::runtime {
namespace {

#ifdef OWN_OPENMP_IS_WHOLE
constexpr bool kIsWhole = true;
#else
constexpr bool kIsWhole = false;
#endif

TEST(OwnOpenMpTest, IsCalledByLibtorch) {
  at::set_num_threads(2);
  const int before = g_regions;
  at::ones({100'000}).add_(1);
  EXPECT_GT(g_regions, before);
}

// Functions of two libraries know nothing of each other's threads.
TEST(OwnOpenMpTest, IsCalledIfItIsWhole) {
  at::set_num_threads(2);
  EXPECT_EQ(HasParallel(), kIsWhole);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const int before = g_regions;
  const bool shared = ParallelFor(0, 2, 1, [&](std::int64_t, std::int64_t) {
    const std::lock_guard<std::mutex> lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(shared, kIsWhole);
  EXPECT_EQ(g_regions - before, kIsWhole ? 1 : 0);
  EXPECT_EQ(threads.size(), kIsWhole ? 2 : 1);
}

// Nor can their threads be asked how they compute.
TEST(OwnOpenMpTest, TeamsThatCannotBeAskedMayBeOdd) {
  at::set_num_threads(2);
  EXPECT_FALSE(HasOddTeam());
  ASSERT_TRUE(at::globalContext().setFlushDenormal(true));
  ASSERT_TRUE(at::globalContext().setFlushDenormal(false));
  EXPECT_EQ(HasOddTeam(), !kIsWhole);
  at::set_num_threads(1);
  EXPECT_FALSE(HasOddTeam());
}

}  // namespace
}  // namespace tjit::runtime

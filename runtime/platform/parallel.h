// Loops on the threads of libtorch's own pool, and a thread without one.
//
// at::parallel_for is a template whose threads are `#pragma omp parallel`: in a
// file that is compiled without OpenMP it runs its loop on one thread, and says
// nothing. Compiled with it, a file is bound to its compiler's OpenMP library,
// whichever libtorch has. So loops are handed to the one that libtorch has
// loaded, by the entry point that GCC's, LLVM's and Intel's have in common.
// tests/layering_test.sh finds at::parallel_for elsewhere in runtime/.
//
// Note [Teams]. A thread that runs parallel loops gets a team of its own from
// libgomp, for as long as it lives. With more threads in teams than processors
// nobody in the process spins any more at a barrier, everybody sleeps at once:
// the program's steps of 0.7 ms took 2 ms while the compile worker lived
// (examples/digits on 2 processors). So that worker is a OneThread, and what it
// must see eager do on several threads runs on a thread that ends at once.
//
// Note [Arithmetic of teams]. A thread of a team rounds and flushes, for as
// long as it lives, as the one did that called for it first; a loop of fewer
// threads ends those it does not need. With set_flush_denormal() that can
// differ from what this thread does by now, and which elements are whose then
// only eager knows: compiled code does not run before such a team. So that no
// team is made earlier than eager makes it, threads other than the main one
// share loops only behind eager's first parallel loop, or where eager would
// share that one; for the same reason they do not fill a server with teams that
// it never asked for.
//
// Source: at::parallel_for (ATen/Parallel-inl.h, ParallelOpenMP.h of libtorch
// 2.13) for the parts and their errors; libgomp/config/linux/wait.h,
// gomp_managed_threads for the note.
// Tested by: tests/runtime/platform/parallel_test.cpp, own_openmp_test.cpp
#pragma once

#include <ATen/Parallel.h>

#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "runtime/platform/thread_context.h"

namespace tjit::runtime {

// run(from, to) for parts of [begin, end), on as many threads as
// at::get_num_threads() says, the caller among them: at most one for each
// `grain` iterations; one inside a parallel region, and in orphans (below). An
// empty range runs nothing. Waits for all; throws what the first of them threw.
// Returns whether another thread had a part. REQUIRES: grain >= 0.
bool ParallelFor(std::int64_t begin, std::int64_t end, std::int64_t grain,
                 absl::FunctionRef<void(std::int64_t, std::int64_t)> run);

// From now on a child that a process of several threads forks is an orphan:
// libgomp would wait there for the threads of its team, which are not there.
// Eager's loops hang so; ours may come where eager has none. A process whose
// threads cannot be counted has several.
void HandleForksInParallel();

// False if libtorch's pool cannot be used: loops run on one thread then.
bool HasParallel();

// at::in_parallel_region(), which libtjit takes for the beginning of a loop:
// then it asks for the number of threads, which sets it on a new thread, MKL's
// too.
inline bool InRegion() {
  const bool had_region = std::exchange(t_context.had_region, true);
  const bool is_inside = at::in_parallel_region();
  t_context.had_region = had_region;
  return is_inside;
}

// at::get_num_threads(), whose first call on a thread sets the number, which is
// no change that anybody's pending ops could see.
int ThreadsOfThisThread();

// Whether a loop of this thread may be shared where eager shares none: Note
// [Arithmetic of teams].
bool MayShare();

// Whether this thread's team computes otherwise than the thread itself does
// now: Note [Arithmetic of teams]. Asks the team, and makes it if there is
// none, once for a number of threads, an arithmetic and what ForgetTeam() ends;
// in a parallel region nobody is asked, the program's own regions among them.
// Teams that cannot be asked (HasParallel()) may be odd once ForgetTeam() was
// called. REQUIRES: called by a thread of the program.
bool HasOddTeam();

// This thread's arithmetic is about to change.
void ForgetTeam();

// How long a loop on all threads takes that does nothing, in nanoseconds; 0 if
// there is one thread. Measured for some 200 us once for a number of threads;
// a machine that is too busy to say is asked again later, and so is one thread
// inside a parallel region of the program's own, where there is no team.
// REQUIRES: called by a thread of the program, outside of libtorch's regions.
std::int64_t ForkNs();

// For tests: what ForkNs() says of several threads from now on, whatever the
// machine does; 0: measured again.
void AssumeForkNs(std::int64_t ns);

// While it lives, parallel loops on this thread run on it alone, libtorch's and
// MKL's, too. REQUIRES: ends on the thread on which it began.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
  const bool was_alone_;
  int mkl_before_ = 0;
};

// Inside a OneThread: runs it on a thread of its own, which has as many threads
// as new ones of the process get, takes no part in recording, and goes with its
// team when this returns (Note [Teams]). Outside: just runs it. Throws what
// `run` throws, and std::system_error if no thread can be had.
void RunWithTeam(absl::FunctionRef<void()> run);

}  // namespace tjit::runtime

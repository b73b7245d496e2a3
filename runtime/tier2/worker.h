// The one background thread of the process, and the queue of what it does.
//
// The thread is started by the first job, blocks the program's signals, ends
// after two seconds without work (so that it keeps no process alive), is waited
// for at exit and stands still around fork(); the child starts its own.
// Invariants: (1) Jobs run one at a time, in the order in which they came, but
// for one that ended early: it comes first again. (2) At most
// policy::kMaxQueued jobs wait where the caller can ask again later.
// Thread: any; mutex_ guards the queue. Nobody holds it who wants the mutex of a
// thread's state.
// Tested by: tests/runtime/tier2/worker_jobs_test.cpp,
// tests/runtime/tier2/tier2_test.cpp
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "support/mutex.h"

namespace tjit::runtime {

// False if it ended before it was done, because `hurry` was set: it is done
// again later.
using WorkerJob = std::function<bool(const std::atomic<bool>& hurry)>;

class Worker {
 public:
  // `on_empty` runs on the worker, behind a job with which the queue has become
  // empty.
  explicit Worker(std::function<void()> on_empty)
      : on_empty_(std::move(on_empty)) {}

  // Runs `job` on the worker; false if no thread can be had.
  bool Post(WorkerJob job);
  // The same for a job that may be dropped; false, too, if the queue is full.
  // `on_end` is called under the mutex of the queue, so it must be short:
  // behind the job, or where it was dropped (`ran` is false then). Memory is
  // given back behind such jobs.
  bool PostDroppable(WorkerJob job, std::function<void(bool ran)> on_end);
  // Drops what waits and may be dropped.
  void DropQueued();

  // At exit: waits for the job that runs and ends the worker. Jobs are stopped,
  // and dropped; PauseForFork() stops them as well.
  void Stop();
  bool is_stopped() const { return stops_.load(std::memory_order_relaxed); }
  // Set by Stop(): whoever takes long looks at it.
  const std::atomic<bool>& stops() const { return stops_; }
  // This is the worker that the process stops at its exit.
  void StopsAtExit();
  // From now on stopping that one is the first thing that the exit does.
  // Objects that are made later are destroyed before it: called once the worker
  // has begun, has loaded LLVM and has done a job, by when all that it uses is
  // there.
  static void StopFirstAtExit();

  // Waits until the worker has begun and is between two jobs, where it stays
  // until UnlockAfterFork(); none is started until then. A child would wait for
  // ever for what a thread of its parent had half initialised. The caller holds
  // no lock: what the worker does may need one of the runtime for a moment.
  void PauseForFork();
  // REQUIRES: the worker is paused.
  void LockForFork() { mutex_.LockForFork(); }
  // REQUIRES: LockForFork().
  void UnlockAfterFork(bool is_child) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // Waits until nothing is queued or done, for `timeout` at most; a negative
  // one counts as 0. False if that time has passed, or on the worker itself.
  bool WaitUntilIdle(
      std::chrono::milliseconds timeout = std::chrono::milliseconds::max());

 private:
  struct Task {
    WorkerJob job;
    std::function<void(bool ran)> on_end;  // null: it is not dropped
  };

  bool Enqueue(Task task);
  bool Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Work();
  // Both unlock `lock`, which holds mutex_, for a while.
  bool WaitForTask(ReleasableMutexLock* lock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void RunFirst(ReleasableMutexLock* lock)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  bool Run(const Task& task);
  void DropQueuedLocked(bool with_jobs) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<void()> on_empty_;
  Mutex mutex_;
  // By pointer: the child of a fork takes a new one.
  std::condition_variable* changed_ ABSL_GUARDED_BY(mutex_) =
      new std::condition_variable;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  bool has_worker_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread::id worker_ ABSL_GUARDED_BY(mutex_);  // the last that began
  bool is_busy_ ABSL_GUARDED_BY(mutex_) = false;  // begins, or does a task
  int pauses_ ABSL_GUARDED_BY(mutex_) = 0;  // forks under way
  bool cannot_start_ ABSL_GUARDED_BY(mutex_) = false;
  bool had_worker_ ABSL_GUARDED_BY(mutex_) = false;  // ever
  bool did_task_ ABSL_GUARDED_BY(mutex_) = false;    // ever
  // Of jobs that may be dropped: these compile.
  bool holds_memory_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> stops_{false};
  std::atomic<bool> hurry_{false};  // a fork or the exit waits
};

}  // namespace tjit::runtime

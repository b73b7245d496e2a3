#include "runtime/tier2/worker.h"

#include <ATen/record_function.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/platform/fp_environment.h"
#include "runtime/platform/own_memory.h"
#include "runtime/platform/own_thread.h"
#include "runtime/platform/parallel.h"
#include "runtime/platform/thread_context.h"
#include "runtime/platform/wait_row.h"
#include "runtime/report/log.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

constexpr std::chrono::seconds kIdle{policy::kWorkerIdleSeconds};

// The thread is about to wait for the worker. Rows are written without the
// mutex of the queue: whoever holds that waits for no other one.
void BeginWait(WaitFor what, ReleasableMutexLock* lock,
               WaitRow* row) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  lock->Unlock();
  row->Begin(what);
  lock->Lock();
}

// Handlers of atexit() take no argument.
std::atomic<Worker*> g_stopped_at_exit{nullptr};

}  // namespace

bool Worker::Post(WorkerJob job) { return Enqueue({std::move(job), nullptr}); }

bool Worker::PostDroppable(WorkerJob job,
                           std::function<void(bool ran)> on_end) {
  return Enqueue({std::move(job), std::move(on_end)});
}

bool Worker::Enqueue(Task task) {
  const MutexLock lock(mutex_);
  const bool is_full =
      task.on_end != nullptr && queue_.size() >= policy::kMaxQueued;
  if (is_stopped() || is_full || !Start()) return false;
  queue_.push_back(std::move(task));
  changed_->notify_all();
  return true;
}

bool Worker::Start() {
  // Behind a fork that is under way, UnlockAfterFork() starts it.
  if (has_worker_ || pauses_ != 0) return true;
  if (cannot_start_) return false;
  try {
    const SignalsBlocked blocked;
    std::thread([this] { Work(); }).detach();
    has_worker_ = true;
    is_busy_ = true;  // until it waits for tasks
    if (!std::exchange(had_worker_, true)) StopFirstAtExit();
  } catch (const std::system_error& e) {
    cannot_start_ = true;
    LogWarning(std::string("no thread for compiling can be had (") + e.what() +
               "); sequences are replayed by library calls");
  }
  return has_worker_;
}

void Worker::StopsAtExit() { g_stopped_at_exit.store(this); }

void Worker::StopFirstAtExit() {
  // Without memory for one more handler the destructor of AtLoad stops it.
  static_cast<void>(std::atexit([] {
    Worker* const worker = g_stopped_at_exit.load();
    if (worker != nullptr) worker->Stop();
  }));
}

void Worker::Work() {
  pthread_setname_np(pthread_self(), "tjit-compile");
  t_context.off = true;          // what runs here is no part of the program
  _mm_setcsr(kUsualArithmetic);  // not that of the thread that began it
  const OneThread no_team;
  const at::RecordFunctionGuard unseen(/*is_enabled=*/false);
  ReleasableMutexLock lock(mutex_);
  worker_ = std::this_thread::get_id();
  holds_memory_ = false;
  is_busy_ = false;
  changed_->notify_all();
  while (!is_stopped() && WaitForTask(&lock)) {
    if (!is_stopped() && pauses_ == 0 && !queue_.empty()) RunFirst(&lock);
  }
  has_worker_ = false;
  changed_->notify_all();
}

// False if nothing has come for as long as the worker waits.
bool Worker::WaitForTask(ReleasableMutexLock* lock) {
  if (pauses_ == 0 && !queue_.empty()) return true;
  const bool woken =
      lock->WaitFor(*changed_, kIdle) == std::cv_status::no_timeout;
  if (woken || pauses_ != 0 || !queue_.empty()) return true;
  if (!std::exchange(holds_memory_, false)) return false;
  is_busy_ = true;
  lock->Unlock();
  ReleaseUnusedMemory();
  lock->Lock();
  is_busy_ = false;
  changed_->notify_all();
  return pauses_ != 0 || !queue_.empty();
}

void Worker::RunFirst(ReleasableMutexLock* lock) {
  Task task = std::move(queue_.front());
  queue_.pop_front();
  is_busy_ = true;
  lock->Unlock();
  const bool is_done = Run(task);
  lock->Lock();
  if (task.on_end != nullptr) holds_memory_ = true;
  if (!std::exchange(did_task_, true)) StopFirstAtExit();
  if (!is_done && !is_stopped()) {
    queue_.push_front(std::move(task));
    is_busy_ = false;
    changed_->notify_all();
    return;
  }
  if (task.on_end != nullptr) task.on_end(/*ran=*/true);
  if (queue_.empty()) {
    lock->Unlock();
    task = {};
    on_empty_();
    lock->Lock();
  }
  is_busy_ = false;
  changed_->notify_all();
}

bool Worker::Run(const Task& task) {
  try {
    return task.job(hurry_);
  } catch (const std::exception& e) {  // no memory: nothing is known
    LogWarning(std::string("a job of the background thread failed: ") +
               e.what());
  }
  return true;
}

void Worker::DropQueuedLocked(bool with_jobs) {
  std::erase_if(queue_, [&](const Task& task) {
    if (task.on_end != nullptr) task.on_end(/*ran=*/false);
    return with_jobs || task.on_end != nullptr;
  });
}

void Worker::DropQueued() {
  const MutexLock lock(mutex_);
  DropQueuedLocked(/*with_jobs=*/false);
}

void Worker::Stop() {
  WaitRow row;
  ReleasableMutexLock lock(mutex_);
  stops_.store(true);
  hurry_.store(true);
  DropQueuedLocked(/*with_jobs=*/true);
  changed_->notify_all();
  if (has_worker_) BeginWait(WaitFor::kExit, &lock, &row);
  while (has_worker_) lock.Wait(*changed_);
}

void Worker::PauseForFork() {
  WaitRow row;
  ReleasableMutexLock lock(mutex_);
  ++pauses_;
  hurry_.store(true);
  if (is_busy_) BeginWait(WaitFor::kFork, &lock, &row);
  while (is_busy_) lock.Wait(*changed_);
}

void Worker::UnlockAfterFork(bool is_child) {
  pauses_ = is_child ? 0 : pauses_ - 1;
  if (pauses_ == 0) hurry_.store(is_stopped());
  if (is_child) {
    has_worker_ = false;
    // The parent's worker may wait on the old one.
    changed_ = new std::condition_variable;
    DropQueuedLocked(/*with_jobs=*/false);
  }
  if (pauses_ == 0 && !queue_.empty() && !Start()) {
    DropQueuedLocked(/*with_jobs=*/true);
  }
  changed_->notify_all();
  mutex_.UnlockAfterFork();
}

bool Worker::WaitUntilIdle(std::chrono::milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  // Longer than any process lives, and far from where the clock overflows.
  constexpr std::chrono::milliseconds kLongest = std::chrono::years(10);
  const auto until =
      Clock::now() +
      std::clamp(timeout, std::chrono::milliseconds::zero(), kLongest);
  WaitRow row;
  ReleasableMutexLock lock(mutex_);
  if (has_worker_ && worker_ == std::this_thread::get_id()) return false;
  if ((is_busy_ || !queue_.empty()) && Clock::now() < until) {
    BeginWait(WaitFor::kCode, &lock, &row);
  }
  while (is_busy_ || !queue_.empty()) {
    const auto now = Clock::now();
    if (now >= until) return false;
    lock.WaitFor(*changed_, until - now);
  }
  return true;
}

}  // namespace tjit::runtime

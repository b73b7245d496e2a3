// A thread of the program waits for another one: a row of the instruction log,
// from then on until the scope ends. Where nobody waits nothing is done, and
// where no log is written Begin() is a call and two loads.
//
//   WaitRow row;
//   if (!mutex.try_lock()) {
//     row.Begin(WaitFor::kEnable);
//     mutex.lock();
//   }
//
// Declared here, where the locks are, and defined in report/, where the log is.
// Writing a row takes locks of the log, which are leaves.
// Threads: one. REQUIRES: it ends on the thread on which it began.
// Tested by: tests/runtime/report/wait_row_test.cpp,
// tests/acceptance/timeline_test.py
#pragma once

#include <cstdint>

#include "support/mutex.h"

namespace tjit {

struct LogRecord;

namespace runtime {

class OwnerLock;

// What is waited for.
enum class WaitFor : std::uint8_t {
  kThread,    // another one works in its state, or runs its pending ops
  kOwnState,  // another thread works in the state of this one
  kEnable,    // another one sets tjit up, or changes what it does
  kThreads,   // the list of states
  kCode,      // wait_until_compiled()
  kFork,      // the compiler, which stands still for a fork
  kExit,      // the compiler, which ends with the process
  kProfile,   // another process writes a profile into the same folder
};

class WaitRow {
 public:
  WaitRow() = default;
  ~WaitRow() {
    if (row_ != nullptr) [[unlikely]]
      End();
  }
  WaitRow(const WaitRow&) = delete;
  WaitRow& operator=(const WaitRow&) = delete;

  // The thread is about to wait. The first one counts. `lock`: for what, if
  // it may be one of the log's own.
  void Begin(WaitFor what, const OwnerLock* lock = nullptr);

 private:
  void End();

  LogRecord* row_ = nullptr;
  std::uint64_t log_ = 0;  // that it stands in
};

// A MutexLock of one that may be held for long.
class ABSL_SCOPED_LOCKABLE WaitingLock {
 public:
  WaitingLock(Mutex& mutex, WaitFor what)
      ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS
      : mutex_(mutex) {
    if (mutex.try_lock()) [[likely]]
      return;
    WaitRow row;
    row.Begin(what);
    mutex.lock();
  }
  ~WaitingLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  WaitingLock(const WaitingLock&) = delete;
  WaitingLock& operator=(const WaitingLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace runtime
}  // namespace tjit

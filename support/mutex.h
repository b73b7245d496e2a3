// A std::mutex whose rules clang checks: what it guards says so by
// ABSL_GUARDED_BY(mutex_), a function that wants it held by
// ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_), and the preset clang-thread-safety
// makes a breach an error. The code is that of a std::mutex.
//
//   class Queue {
//     void Push(int x) { const MutexLock lock(mutex_); all_.push_back(x); }
//     Mutex mutex_;
//     std::vector<int> all_ ABSL_GUARDED_BY(mutex_);
//   };
//
// Not an absl::Mutex: a forked child may unlock a std::mutex that its parent
// locked before the fork.
// Tested by: tests/support/mutex_test.cpp
#pragma once

#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace tjit {

class ABSL_LOCKABLE Mutex {
 public:
  constexpr Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  bool try_lock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    return mutex_.try_lock();
  }

  // Around a fork: the function that locks is not the one that unlocks, in the
  // parent and in the child.
  void LockForFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }
  void UnlockAfterFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }

 private:
  friend class ReleasableMutexLock;

  std::mutex mutex_;
};

// Holds a mutex for the length of a scope.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex_.lock();
  }
  // The caller has locked it.
  MutexLock(Mutex& mutex, std::adopt_lock_t /*unused*/)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex)
      : mutex_(mutex) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// The same, but it may be unlocked in between, and wait.
class ABSL_SCOPED_LOCKABLE ReleasableMutexLock {
 public:
  explicit ReleasableMutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : lock_(mutex.mutex_) {}
  ~ReleasableMutexLock() ABSL_UNLOCK_FUNCTION() {}
  ReleasableMutexLock(const ReleasableMutexLock&) = delete;
  ReleasableMutexLock& operator=(const ReleasableMutexLock&) = delete;

  void Unlock() ABSL_UNLOCK_FUNCTION() { lock_.unlock(); }
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { lock_.lock(); }
  // REQUIRES: it is locked; and so it is afterwards. May wake for no reason.
  void Wait(std::condition_variable& changed) { changed.wait(lock_); }
  template <class Duration>
  std::cv_status WaitFor(std::condition_variable& changed, Duration time) {
    return changed.wait_for(lock_, time);
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace tjit

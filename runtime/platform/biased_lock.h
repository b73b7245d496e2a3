// A lock that one thread takes all the time and others hardly ever.
//
// How: the owner notes that it is inside with a plain store and looks whether
// another thread asks; the other says that it asks, makes the owner's stores
// visible with membarrier(2), which interrupts the threads of the process, and
// waits until the owner is outside. Two instructions instead of two locked
// ones for the owner, a system call for the others. Where there is no
// membarrier the owner pays for a fence.
//
// Threads: the owner is one thread at a time; handing the role over needs
// synchronisation of its own, while nobody holds the lock.
// Tested by: tests/runtime/platform/owner_lock_test.cpp
// Source: asymmetric Dekker locks; membarrier(2), MEMBARRIER_CMD_PRIVATE_
// EXPEDITED.
#pragma once

#include <atomic>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace tjit::runtime {

class ABSL_LOCKABLE OwnerLock {
 public:
  OwnerLock() = default;
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;

  void LockAsOwner() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
#if defined(__SANITIZE_THREAD__)
    mutex_.lock();
#else
    inside_.store(true, std::memory_order_relaxed);
    if (has_membarrier.load(std::memory_order_relaxed)) [[likely]] {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    if (asked_.load(std::memory_order_acquire)) [[unlikely]] WaitAsOwner();
#endif
  }
  void UnlockAsOwner() ABSL_UNLOCK_FUNCTION() {
#if defined(__SANITIZE_THREAD__)
    mutex_.unlock();
#else
    if (holds_mutex_) [[unlikely]] {
      holds_mutex_ = false;
      mutex_.unlock();
      return;
    }
    inside_.store(false, std::memory_order_release);
#endif
  }

  void LockAsOther() ABSL_EXCLUSIVE_LOCK_FUNCTION();
  void UnlockAsOther() ABSL_UNLOCK_FUNCTION();

  // Asks the system for membarrier. Once, before the first lock.
  static void Prepare();

 private:
  static std::atomic<bool> has_membarrier;

  void WaitAsOwner();

  std::atomic<bool> inside_{false};  // the owner is, without the mutex
  std::atomic<bool> asked_{false};   // another thread wants in, or is in
  bool holds_mutex_ = false;         // the owner is in by the mutex
  std::mutex mutex_;                 // of the others, and of an owner who waits
};

}  // namespace tjit::runtime

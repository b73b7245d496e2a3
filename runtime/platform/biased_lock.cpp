#include "runtime/platform/biased_lock.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "runtime/platform/wait_row.h"
#include "runtime/platform/watchdog.h"

namespace tjit::runtime {
namespace {

// False if the system refuses.
bool Membarrier(int command) {
  return syscall(SYS_membarrier, command, 0, 0) == 0;
}

}  // namespace

std::atomic<bool> OwnerLock::has_membarrier{false};

void OwnerLock::Prepare() {
  has_membarrier.store(
      Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
}

void OwnerLock::WaitAsOwner() {
  const Watched watched("waits for its own state");
  inside_.store(false, std::memory_order_release);
  WaitRow row;
  if (!mutex_.try_lock()) {
    row.Begin(WaitFor::kOwnState, this);
    mutex_.lock();
  }
  holds_mutex_ = true;
}

void OwnerLock::LockAsOther() {
  const Watched watched("waits for the state of another thread");
  WaitRow row;
  if (!mutex_.try_lock()) {
    row.Begin(WaitFor::kThread, this);
    mutex_.lock();
  }
#if !defined(__SANITIZE_THREAD__)
  asked_.store(true, std::memory_order_seq_cst);
  if (has_membarrier.load(std::memory_order_relaxed)) {
    // Registered for this process; a child of fork() may not be.
    if (!Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
      Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
      Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    }
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  // The owner may be running a segment: first spin, then sleep.
  for (int i = 0; inside_.load(std::memory_order_acquire); ++i) {
    row.Begin(WaitFor::kThread, this);
    if (i < 64) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
#endif
}

void OwnerLock::UnlockAsOther() {
  asked_.store(false, std::memory_order_release);
  mutex_.unlock();
}

}  // namespace tjit::runtime

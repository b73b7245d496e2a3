#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "runtime/platform/biased_lock.h"
#include "runtime/platform/wait_row.h"

namespace tjit::runtime {

// Instead of rows of a log, which knows more of the process: how many of each
// kind have begun and ended.
std::atomic<int> for_thread{0}, for_own_state{0}, ended{0};

void WaitRow::Begin(WaitFor what, const OwnerLock* lock) {
  if (row_ != nullptr) return;
  row_ = reinterpret_cast<LogRecord*>(const_cast<OwnerLock*>(lock));
  ++(what == WaitFor::kThread ? for_thread : for_own_state);
}
void WaitRow::End() { ++ended; }

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kSaysThatItWaits = false;
#else
constexpr bool kSaysThatItWaits = true;
#endif

void ForgetRows() { for_thread = for_own_state = ended = 0; }

// Both halves of `pair` change together under the lock.
struct Shared {
  OwnerLock lock;
  long first = 0;
  long second = 0;
};

TEST(OwnerLockTest, OthersSeeWholeChanges) {
  OwnerLock::Prepare();
  constexpr long kLooks = 2000;
  Shared shared;
  std::atomic<bool> done{false};
  std::atomic<long> looked{0};
  std::atomic<long> torn{0};
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) {
    others.emplace_back([&] {
      while (!done.load()) {
        shared.lock.LockAsOther();
        torn += shared.first != shared.second;
        ++shared.first;
        ++shared.second;
        ++looked;
        shared.lock.UnlockAsOther();
      }
    });
  }
  long rounds = 0;
  for (; looked.load() < kLooks; ++rounds) {
    shared.lock.LockAsOwner();
    torn += shared.first != shared.second;
    ++shared.first;
    ++shared.second;
    shared.lock.UnlockAsOwner();
  }
  done.store(true);
  for (std::thread& t : others) t.join();
  EXPECT_EQ(torn.load(), 0);
  EXPECT_EQ(shared.first, rounds + looked.load());
  EXPECT_EQ(shared.second, shared.first);
}

TEST(OwnerLockTest, NobodyWaitsWhereNobodyIsInside) {
  OwnerLock::Prepare();
  ForgetRows();
  OwnerLock lock;
  for (int i = 0; i < 3; ++i) {
    lock.LockAsOwner();
    lock.UnlockAsOwner();
    std::thread([&] {
      lock.LockAsOther();
      lock.UnlockAsOther();
    }).join();
  }
  EXPECT_EQ(for_thread + for_own_state + ended, 0);
}

TEST(OwnerLockTest, AnotherWaitsForTheOwner) {
  OwnerLock::Prepare();
  ForgetRows();
  OwnerLock lock;
  lock.LockAsOwner();
  std::thread other([&] {
    lock.LockAsOther();
    lock.UnlockAsOther();
  });
  while (for_thread == 0) std::this_thread::yield();
  lock.UnlockAsOwner();
  other.join();
  EXPECT_EQ(for_thread, 1);
  EXPECT_EQ(for_own_state, 0);
  EXPECT_EQ(ended, 1);
}

TEST(OwnerLockTest, TheOwnerWaitsForAnother) {
  OwnerLock::Prepare();
  ForgetRows();
  OwnerLock lock;
  std::atomic<int> step{0};
  std::thread other([&] {
    lock.LockAsOther();
    step.store(1);
    // Where the owner takes a mutex (ThreadSanitizer) nobody says so.
    const int most_ms = kSaysThatItWaits ? 10000 : 20;
    for (int ms = 0; ms < most_ms && for_own_state == 0; ++ms) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    step.store(2);
    lock.UnlockAsOther();
  });
  while (step.load() == 0) std::this_thread::yield();
  lock.LockAsOwner();
  EXPECT_EQ(step.load(), 2);
  lock.UnlockAsOwner();
  other.join();
  EXPECT_EQ(for_thread, 0);
  EXPECT_EQ(for_own_state, kSaysThatItWaits ? 1 : 0);
  EXPECT_EQ(ended, for_own_state);
}

}  // namespace
}  // namespace tjit::runtime

#include "runtime/platform/biased_lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace tjit::runtime {
namespace {

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

TEST(OwnerLockTest, TheOwnerWaitsForAnother) {
  OwnerLock::Prepare();
  OwnerLock lock;
  std::atomic<int> step{0};
  std::thread other([&] {
    lock.LockAsOther();
    step.store(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    step.store(2);
    lock.UnlockAsOther();
  });
  while (step.load() == 0) std::this_thread::yield();
  lock.LockAsOwner();
  EXPECT_EQ(step.load(), 2);
  lock.UnlockAsOwner();
  other.join();
}

}  // namespace
}  // namespace tjit::runtime

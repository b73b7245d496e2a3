#include "support/mutex.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace tjit {
namespace {

class Queue {
 public:
  void Push(int value) {
    const MutexLock lock(mutex_);
    all_.push_back(value);
    changed_.notify_all();
  }
  // The sum of the first `count`.
  int SumOf(std::size_t count) {
    ReleasableMutexLock lock(mutex_);
    while (all_.size() < count) lock.Wait(changed_);
    int sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += all_[i];
    return sum;
  }
  Mutex& mutex() { return mutex_; }

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> all_ ABSL_GUARDED_BY(mutex_);
};

TEST(MutexTest, OneThreadWaitsForWhatOthersPush) {
  Queue queue;
  std::vector<std::thread> threads;
  for (int i = 1; i <= 4; ++i) {
    threads.emplace_back([&queue, i] {
      for (int n = 0; n < 1000; ++n) queue.Push(i);
    });
  }
  EXPECT_EQ(queue.SumOf(4000), 10000);
  for (std::thread& thread : threads) thread.join();
}

// True if another thread could have it now.
bool IsFree(Mutex& mutex) {
  bool is_free = false;
  std::thread([&] {
    if (!mutex.try_lock()) return;
    is_free = true;
    mutex.unlock();
  }).join();
  return is_free;
}

TEST(MutexTest, ALockLastsForItsScope) {
  Mutex mutex;
  {
    const MutexLock lock(mutex);
    EXPECT_FALSE(IsFree(mutex));
  }
  EXPECT_TRUE(IsFree(mutex));
  mutex.lock();
  {
    const MutexLock lock(mutex, std::adopt_lock);
    EXPECT_FALSE(IsFree(mutex));
  }
  EXPECT_TRUE(IsFree(mutex));
}

TEST(MutexTest, AReleasableLockMayBeUnlockedInBetween) {
  Mutex mutex;
  std::condition_variable never;
  {
    ReleasableMutexLock lock(mutex);
    EXPECT_FALSE(IsFree(mutex));
    lock.Unlock();
    EXPECT_TRUE(IsFree(mutex));
    lock.Lock();
    while (lock.WaitFor(never, std::chrono::milliseconds(1)) !=
           std::cv_status::timeout) {
    }
    EXPECT_FALSE(IsFree(mutex));
  }
  EXPECT_TRUE(IsFree(mutex));
}

TEST(MutexTest, AForkedChildUnlocksWhatItsParentLocked) {
  Mutex mutex;
  mutex.LockForFork();
  const pid_t child = fork();
  if (child == 0) {
    mutex.UnlockAfterFork();
    _exit(mutex.try_lock() ? 0 : 1);
  }
  mutex.UnlockAfterFork();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(IsFree(mutex));
}

}  // namespace
}  // namespace tjit

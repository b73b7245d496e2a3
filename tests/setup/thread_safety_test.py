"""Clang checks the rules of support/mutex.h, where clang is there.

What it proves: with the warnings of the preset clang-thread-safety code that
keeps the rules compiles, and each kind of breach is an error: a read or write
without the mutex, a call of a function that wants it held, a lock that is never
unlocked, and one that is unlocked twice.

Usage: thread_safety_test.py PROJECT_FOLDER [unittest arguments]
"""
import pathlib
import shutil
import subprocess
import sys
import unittest

PROJECT = None
CLANG = next((path for name in ("clang++", "clang++-22", "clang++-19")
              if (path := shutil.which(name))), None)
QUEUE = """
#include "support/mutex.h"
using namespace tjit;
class Queue {
 public:
  void Good() { const MutexLock lock(mutex_); ++count_; AddLocked(); }
  void Waits() {
    ReleasableMutexLock lock(mutex_);
    while (count_ == 0) lock.Wait(changed_);
    lock.Unlock();
    lock.Lock();
    --count_;
  }
  void Forks() { mutex_.LockForFork(); }
  void Adopts() {
    if (!mutex_.try_lock()) return;
    const MutexLock lock(mutex_, std::adopt_lock);
    ++count_;
  }
  %s
 private:
  void AddLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { ++count_; }
  Mutex mutex_;
  std::condition_variable changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};
"""


@unittest.skipIf(CLANG is None, "no clang++ here")
class ThreadSafetyTest(unittest.TestCase):
    def compile(self, method):
        return subprocess.run(
            [CLANG, "-std=c++20", "-fsyntax-only", "-Wthread-safety", "-Werror",
             f"-I{PROJECT}", "-xc++", "-"], input=QUEUE % method, text=True,
            capture_output=True, timeout=60, check=False)

    def test_code_that_keeps_the_rules_compiles(self):
        done = self.compile("")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_each_breach_is_an_error(self):
        for method, error in (
                ("void Bad() { ++count_; }", "requires holding mutex 'mutex_'"),
                ("int Bad() { return count_; }",
                 "requires holding mutex 'mutex_'"),
                ("void Bad() { AddLocked(); }",
                 "requires holding mutex 'mutex_'"),
                ("void Bad() { ReleasableMutexLock lock(mutex_); "
                 "lock.Unlock(); ++count_; }",
                 "requires holding mutex 'mutex_'"),
                ("void Bad() { mutex_.lock(); }", "still held at the end"),
                ("void Bad() { mutex_.lock(); mutex_.unlock(); "
                 "mutex_.unlock(); }", "that was not held")):
            done = self.compile(method)
            self.assertNotEqual(done.returncode, 0, method)
            self.assertIn(error, done.stderr)


if __name__ == "__main__":
    PROJECT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()

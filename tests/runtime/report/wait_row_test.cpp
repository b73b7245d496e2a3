// Waits for the compiler, for a mutex that is held for long and for another
// process are rows of the instruction log, as long as they were; where nobody
// waits there is none. Waits for states: tests/acceptance/timeline_test.py.
#include "runtime/platform/wait_row.h"

#include <ATen/ops/ones.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "recorder/instruction_log_reader.h"
#include "runtime/report/options_resolution.h"
#include "runtime/tier2/profile_file.h"
#include "runtime/tier2/worker.h"

namespace tjit::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The log that TJIT_INSTRUCTION_LOG names (CMakeLists.txt) is written.
std::vector<LogRow> Waits() {
  InstructionLog log;
  std::string why;
  EXPECT_EQ(log.Open(InstructionLogPath(), &why), InstructionLog::Opened::kYes)
      << why;
  std::vector<LogRow> waits;
  LogRow row;
  while (log.Next(/*is_live=*/false, &row)) {
    if (row.event == LogEvent::kWait) waits.push_back(row);
  }
  return waits;
}

// What is waited for takes so long.
constexpr milliseconds kLong(100);

// A worker that is busy for kLong from now on.
class Busy {
 public:
  Busy() : worker_([] {}) {
    worker_.Post([this](const std::atomic<bool>&) {
      begun_ = true;
      std::this_thread::sleep_for(kLong);
      return true;
    });
    while (!begun_) std::this_thread::yield();
  }
  // Ended, so that nothing of it lasts.
  ~Busy() { worker_.Stop(); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  Worker* operator->() { return &worker_; }

 private:
  std::atomic<bool> begun_{false};
  Worker worker_;
};

class WaitRowTest : public ::testing::Test {
 protected:
  void SetUp() override {
    at::ones({2});  // a row, with which the log begins
    before_ = Waits().size();
  }
  // That `wait` waited once, for `what`, and how long by this clock.
  template <class Wait>
  void ExpectOneRow(const std::string& what, const Wait& wait) {
    const auto began = Clock::now();
    wait();
    const auto took_ns = static_cast<double>(
        std::chrono::nanoseconds(Clock::now() - began).count());
    const std::vector<LogRow> waits = Waits();
    ASSERT_EQ(waits.size(), before_ + 1);
    const LogRow& row = waits.back();
    EXPECT_EQ(row.command, "Waited");
    EXPECT_EQ(row.details, what);
    EXPECT_EQ(row.source, "MAIN");
    EXPECT_FALSE(row.is_open);
    EXPECT_LE(row.took_ns, took_ns);
    EXPECT_GE(row.took_ns, 0.5 * took_ns);
    EXPECT_GE(took_ns, 5e6);  // a part of kLong at least
  }

  std::size_t before_ = 0;
};

TEST_F(WaitRowTest, UntilCompiled) {
  Busy worker;
  ExpectOneRow("for=compiler at=wait_until_compiled",
               [&] { EXPECT_TRUE(worker->WaitUntilIdle()); });
}

TEST_F(WaitRowTest, NobodyWaitsForAnIdleWorkerOrNoTime) {
  Worker idle([] {});
  EXPECT_TRUE(idle.WaitUntilIdle());
  Busy worker;
  EXPECT_FALSE(worker->WaitUntilIdle(milliseconds(0)));
  EXPECT_EQ(Waits().size(), before_);
}

TEST_F(WaitRowTest, ATimeoutEndsTheRow) {
  Busy worker;
  ExpectOneRow("for=compiler at=wait_until_compiled",
               [&] { EXPECT_FALSE(worker->WaitUntilIdle(milliseconds(8))); });
}

TEST_F(WaitRowTest, AtAFork) {
  Busy worker;
  ExpectOneRow("for=compiler at=fork", [&] { worker->PauseForFork(); });
  worker->LockForFork();
  worker->UnlockAfterFork(/*is_child=*/false);
}

TEST_F(WaitRowTest, AtTheExit) {
  Busy worker;
  ExpectOneRow("for=compiler at=exit", [&] { worker->Stop(); });
}

TEST_F(WaitRowTest, ForAMutex) {
  Mutex mutex;
  {
    const WaitingLock lock(mutex, WaitFor::kEnable);
  }
  EXPECT_EQ(Waits().size(), before_);
  std::atomic<bool> is_held{false};
  std::thread other([&] {
    const MutexLock lock(mutex);
    is_held = true;
    std::this_thread::sleep_for(kLong);
  });
  while (!is_held) std::this_thread::yield();
  ExpectOneRow("for=enable",
               [&] { const WaitingLock lock(mutex, WaitFor::kEnable); });
  other.join();
}

TEST_F(WaitRowTest, ForAnotherProcessThatWritesAProfile) {
  const std::string folder = "wait_row_test_profiles";
  std::filesystem::create_directory(folder);
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  std::thread other([&] {
    std::this_thread::sleep_for(kLong);
    close(fd);
  });
  ExpectOneRow("for=profile", [&] {
    Profile none;
    ProfilePlace place;
    place.folder = folder;
    place.name = "a.tjitprofile";
    WriteProfile(place, /*merges=*/false, &none);
  });
  other.join();
}

}  // namespace
}  // namespace tjit::runtime

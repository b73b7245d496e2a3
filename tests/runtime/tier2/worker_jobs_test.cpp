// Jobs of the worker, of which reading a profile is one: they survive
// disable(), clear() and fork(), and neither a fork nor the exit waits for
// their end. TJIT_PROFILE names the file (CMakeLists.txt).
#include <ATen/ATen.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <string>
#include <thread>

#include "compiler/llvm/loader.h"
#include "runtime/report/options_resolution.h"
#include "runtime/runtime.h"
#include "runtime/tier2/hot_profile.h"
#include "runtime/tier2/llvm_engine.h"
#include "runtime/tier2/tier2.h"
#include "tests/recorder/path_builder.h"

namespace {

std::atomic<int> workers_begun{0};

}  // namespace

// The first thing that a worker does takes a while here: the library calls this
// one instead of glibc's.
extern "C" int pthread_setname_np(pthread_t thread, const char* name) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ++workers_begun;
  const auto usual = reinterpret_cast<int (*)(pthread_t, const char*)>(
      dlsym(RTLD_NEXT, "pthread_setname_np"));
  return usual(thread, name);
}

namespace tjit::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

void Sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// A job that does not end by itself the first time.
class LongJob {
 public:
  WorkerJob Get() {
    return [this](const std::atomic<bool>& hurry) {
      if (++runs_ > 1) return true;
      has_begun_ = true;
      const auto latest = steady_clock::now() + seconds(60);
      while (!hurry && steady_clock::now() < latest) Sleep();
      return false;
    };
  }
  void WaitUntilBegun() const {
    while (!has_begun_) Sleep();
  }
  int runs() const { return runs_; }

 private:
  std::atomic<int> runs_{0};
  std::atomic<bool> has_begun_{false};
};

// True if this process has a thread that compiles.
bool HasWorker() {
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    if (std::getline(file, name) && name == "tjit-compile") return true;
  }
  return false;
}

// What is destroyed at the exit, and whether the worker could still use it: one
// that was not stopped waits for two seconds for more to do.
struct Used {
  ~Used() {
    for (int i = 0; i < 1000 && HasWorker(); ++i) Sleep();
    _exit(HasWorker() ? 3 : 0);
  }
};

TEST(WorkerExitTest, TheWorkerGoesBeforeWhatItUses) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        static const Used before;
        Tier2& tier2 = Runtime::Get().tier2();
        tier2.worker().Post([](const std::atomic<bool>&) {
          static const Used meanwhile;
          return true;
        });
        tier2.worker().WaitUntilIdle();
        if (!HasWorker()) _exit(4);
        std::exit(5);
      },
      ::testing::ExitedWithCode(0), "");
}

class WorkerJobsTest : public ::testing::Test {
 protected:
  ~WorkerJobsTest() override {
    go_on_ = true;
    tier2_.worker().Stop();
    std::remove(ProfilePath().c_str());
  }

  // Until GoOn() the worker has something else to do.
  void KeepBusy() {
    tier2_.worker().Post([this](const std::atomic<bool>&) {
      while (!go_on_) Sleep();
      return true;
    });
  }
  void GoOn() {
    go_on_ = true;
    tier2_.worker().WaitUntilIdle();
  }

  // The worker is busy when the first op comes.
  void MeetFirstOp(HotProfile* profile) {
    ASSERT_NE(ProfilePath(), "") << "TJIT_PROFILE is to name a file";
    PathBuilder builder;
    int x = builder.External(F32({4}));
    for (int i = 0; i < 3; ++i) x = builder.Op("aten::relu", {x});
    KnownPath path;
    path.slots = builder.slots();
    for (const NewStep& step : builder.steps()) path.steps.push_back(step.step);
    Profile written;
    ASSERT_EQ(written.Add(path), "");
    ASSERT_EQ(WriteProfile(PlaceOf(ProfilePath()), false, &written), "");
    profile->Configure("off");
    KeepBusy();
    profile->OnFirstOp(&tier2_);
  }

  Tier2 tier2_;
  std::atomic<bool> go_on_{false};
};

// Else its asker would wait for ever.
TEST_F(WorkerJobsTest, AJobThatThrowsHasEnded) {
  std::atomic<int> ended{0};
  ASSERT_TRUE(tier2_.worker().PostDroppable(
      [](const std::atomic<bool>&) -> bool { throw std::bad_alloc(); },
      [&](bool ran) { ended = ran ? 1 : 2; }));
  GoOn();
  EXPECT_EQ(ended, 1);
}

TEST_F(WorkerJobsTest, ADroppedJobHasEndedWithoutARun) {
  std::atomic<int> ended{0};
  KeepBusy();
  ASSERT_TRUE(tier2_.worker().PostDroppable(
      [](const std::atomic<bool>&) { return true; },
      [&](bool ran) { ended = ran ? 1 : 2; }));
  tier2_.worker().DropQueued();
  EXPECT_EQ(ended, 2);
  GoOn();
}

TEST_F(WorkerJobsTest, AProfileIsReadAfterDisable) {
  HotProfile profile;
  MeetFirstOp(&profile);
  tier2_.worker().DropQueued();
  GoOn();
  ASSERT_NE(profile.known(), nullptr);
  EXPECT_EQ(profile.known()->ends().size(), 1u);
}

TEST_F(WorkerJobsTest, AProfileThatIsReadBehindClearIsNotUsed) {
  HotProfile profile;
  MeetFirstOp(&profile);
  tier2_.Forget();
  profile.Forget();
  GoOn();
  EXPECT_EQ(profile.known(), nullptr);
}

TEST_F(WorkerJobsTest, AForkDoesNotWaitAndBothProcessesDoTheJob) {
  LongJob job;
  ASSERT_TRUE(tier2_.worker().Post(job.Get()));
  job.WaitUntilBegun();
  const auto began = steady_clock::now();
  tier2_.worker().PauseForFork();
  tier2_.LockForFork();
  const pid_t child = fork();
  tier2_.UnlockAfterFork(child == 0);
  if (child == 0) {
    tier2_.worker().WaitUntilIdle();
    _exit(job.runs() == 2 ? 0 : 1);
  }
  tier2_.worker().WaitUntilIdle();
  EXPECT_EQ(job.runs(), 2);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_LT(steady_clock::now() - began, seconds(30));
}

// In the child, a static variable that it was about to initialise would be
// waited for for ever.
TEST_F(WorkerJobsTest, AForkWaitsUntilTheWorkerHasBegun) {
  const int before = workers_begun;
  ASSERT_TRUE(
      tier2_.worker().Post([](const std::atomic<bool>&) { return true; }));
  tier2_.worker().PauseForFork();
  EXPECT_EQ(workers_begun, before + 1);
  tier2_.LockForFork();
  tier2_.UnlockAfterFork(/*is_child=*/false);
  EXPECT_TRUE(tier2_.worker().WaitUntilIdle(seconds(60)));
}

TEST_F(WorkerJobsTest, NoWorkerBeginsDuringAFork) {
  const int before = workers_begun;
  std::atomic<int> runs{0};
  tier2_.worker().PauseForFork();
  ASSERT_TRUE(tier2_.worker().Post([&](const std::atomic<bool>&) {
    ++runs;
    return true;
  }));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(workers_begun, before);
  tier2_.LockForFork();
  tier2_.UnlockAfterFork(/*is_child=*/false);
  EXPECT_TRUE(tier2_.worker().WaitUntilIdle(seconds(60)));
  EXPECT_EQ(workers_begun, before + 1);
  EXPECT_EQ(runs, 1);
}

TEST_F(WorkerJobsTest, AWaitEndsInTimeAndNeverWaitsForItself) {
  EXPECT_TRUE(tier2_.worker().WaitUntilIdle(milliseconds(0)));
  KeepBusy();
  const auto began = steady_clock::now();
  EXPECT_FALSE(tier2_.worker().WaitUntilIdle(milliseconds(-1)));
  EXPECT_FALSE(tier2_.worker().WaitUntilIdle(milliseconds(20)));
  EXPECT_GE(steady_clock::now() - began, milliseconds(20));
  EXPECT_LT(steady_clock::now() - began, seconds(30));
  std::atomic<int> answer{-1};
  tier2_.worker().Post([&](const std::atomic<bool>&) {
    answer = static_cast<int>(tier2_.worker().WaitUntilIdle());
    return true;
  });
  GoOn();
  EXPECT_EQ(answer, 0);
  EXPECT_TRUE(tier2_.worker().WaitUntilIdle(milliseconds::max()));
}

// What the first kernel need not wait for.
TEST_F(WorkerJobsTest, LlvmIsPrepared) {
  std::string why_not;
  const bool is_there = LlvmApi(&why_not) != nullptr;
  EXPECT_EQ(PrepareLlvm(), is_there) << why_not;
}

TEST_F(WorkerJobsTest, TheExitDoesNotWait) {
  LongJob job;
  ASSERT_TRUE(tier2_.worker().Post(job.Get()));
  job.WaitUntilBegun();
  const auto began = steady_clock::now();
  tier2_.worker().Stop();
  EXPECT_LT(steady_clock::now() - began, seconds(30));
  EXPECT_EQ(job.runs(), 1);
}

}  // namespace
}  // namespace tjit::runtime

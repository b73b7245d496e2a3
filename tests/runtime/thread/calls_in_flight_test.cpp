// What threads do to one another while an op's kernel runs: change the modes,
// clear(), use torch from a thread that the kernel waits for. Nobody may wait
// for ever, and results are eager's.
#include <ATen/ops/add.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "tjit/tjit.h"

namespace tjit {
namespace {

// What a test wants to happen at the next allocation, once: kernels allocate
// their results, and the profiler's hook is told.
std::function<void()> during_kernel;
class Hook : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t,
                         c10::Device) override {
    if (size <= 0) return;
    if (const auto function = std::exchange(during_kernel, nullptr)) function();
  }
  bool memoryProfilingEnabled() const override { return true; }
};

// Runs it on a thread of its own. A deadlock would keep the process from
// ending as well.
void RunElsewhere(const std::function<void()>& function) {
  std::promise<void> done;
  std::future<void> future = done.get_future();
  std::thread thread([&] {
    function();
    done.set_value();
  });
  if (future.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
    std::fputs("a thread waits for ever\n", stderr);
    std::_Exit(1);
  }
  thread.join();
}

void Enable(Stress stress, bool shadow = false) {
  Options options;
  options.hot_threshold = 2;
  options.stress = stress;
  options.shadow = shadow;
  ASSERT_TRUE(enable(options));
}

class CallsInFlightTest : public ::testing::Test {
 protected:
  void TearDown() override {
    during_kernel = nullptr;
    disable();
    clear();
  }
  at::Tensor Step() const {
    return at::add(at::mul(at::add(x_, x_), x_), x_, 3);
  }
  static void ExpectFive(const at::Tensor& t) {
    EXPECT_EQ(t.const_data_ptr<float>()[15], 5);
  }
  void WarmUp() const {
    for (int i = 0; i < 20; ++i) {
      ExpectFive(Step());
      mark_step();
    }
    const Stats before = stats();
    ExpectFive(Step());
    mark_step();
    ASSERT_EQ((stats() - before).ops_replayed, 3);
  }
  static void ExpectSums() {
    RunElsewhere([] { sync(); });
    const Stats s = stats();
    EXPECT_EQ(s.ops_seen, s.ops_eager + s.ops_replayed + s.ops_drained);
  }
  const at::Tensor x_ = at::ones({4, 4});
  const c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE,
                                   std::make_shared<Hook>()};
};

TEST_F(CallsInFlightTest, LateEndsDuringAKernel) {
  Enable(Stress::kLate);
  ExpectFive(Step());
  during_kernel = [] { Enable(Stress::kNone); };
  const Stats before = stats();
  const at::Tensor y = Step();
  EXPECT_EQ(during_kernel, nullptr);
  EXPECT_GT((stats() - before).ops_late, 0);
  ExpectSums();
  ExpectFive(y);
  WarmUp();
}

TEST_F(CallsInFlightTest, LateBeginsDuringAKernel) {
  Enable(Stress::kNone);
  ExpectFive(Step());
  during_kernel = [] { Enable(Stress::kLate); };
  const Stats before = stats();
  const at::Tensor y = Step();
  EXPECT_GT((stats() - before).ops_late, 0);
  ExpectSums();
  ExpectFive(y);
}

TEST_F(CallsInFlightTest, ShadowEndsDuringAKernel) {
  Enable(Stress::kNone, /*shadow=*/true);
  WarmUp();
  during_kernel = [] { Enable(Stress::kNone); };
  const at::Tensor y = Step();
  EXPECT_EQ(during_kernel, nullptr);
  ExpectSums();
  ExpectFive(y);
  EXPECT_EQ(stats().shadow_mismatches, 0);
  WarmUp();
}

// Between two ops.
TEST_F(CallsInFlightTest, ShadowEndsOnAnotherThread) {
  Enable(Stress::kNone, /*shadow=*/true);
  WarmUp();
  RunElsewhere([] { Enable(Stress::kNone); });
  const Stats before = stats();
  WarmUp();
  EXPECT_EQ((stats() - before).shadow_checks, 0);
  ExpectSums();
}

// The kernel waits for a thread that is new to tjit; clear() waits for the
// kernel, as ops are pending before it.
TEST_F(CallsInFlightTest, ClearDuringAKernel) {
  Enable(Stress::kLate);
  ExpectFive(Step());
  const at::Tensor first = at::add(x_, x_);
  std::thread clears;
  bool has_run = false;
  during_kernel = [&] {
    clears = std::thread([] { clear(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    RunElsewhere([&has_run] {
      const at::Tensor own = at::ones({4});
      has_run = at::add(own, own).const_data_ptr<float>()[0] == 2;
    });
  };
  const at::Tensor y = at::add(first, x_, 3);
  clears.join();
  EXPECT_TRUE(has_run);
  ExpectFive(y);
  ExpectSums();
}

}  // namespace
}  // namespace tjit

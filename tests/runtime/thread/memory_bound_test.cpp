// What tjit keeps of sequences, in bytes: the figures are about what malloc and
// the system gave, and TJIT_MAX_MEMORY_MB bounds them (Note [Bounded memory] in
// runtime/thread/eviction.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <tjit/tjit.h>
#include <torch/torch.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "runtime/testing.h"
#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

constexpr int kOps = 30;  // of a step
constexpr std::int64_t kMB = 1 << 20;

// Another chain for each number, over other sizes.
at::Tensor Step(const at::Tensor& all, std::uint32_t number, int ops = kOps) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = all.narrow(0, 0, 5 + number);
  at::Tensor y = x * 0.5;
  for (int i = 0; i < ops; ++i) {
    number = number * 1664525u + 1013904223u;
    switch ((number >> 20) % 5) {
      case 0:
        y = y + x;
        break;
      case 1:
        y = y * x;
        break;
      case 2:
        y = torch::relu(y);
        break;
      case 3:
        y = y - x;
        break;
      default:
        y = torch::abs(y);
    }
  }
  mark_step();
  return y;
}

// What malloc has given, in all its arenas: malloc_info()'s last sums.
std::int64_t InUse() {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  malloc_info(0, file);
  std::fclose(file);
  const auto last = [text](const char* tag) {
    const char* found = nullptr;
    for (const char* at = text; (at = std::strstr(at, tag)) != nullptr; ++at) {
      found = at;
    }
    const char* number = std::strstr(found, "size=\"");
    return std::strtoll(number + std::strlen("size=\""), nullptr, 10);
  };
  const std::int64_t bytes =
      last("<system type=\"current\"") - last("<total type=\"fast\"") -
      last("<total type=\"rest\"") + last("<total type=\"mmap\"");
  std::free(text);
  return bytes;
}

std::int64_t Kept() {
  const Stats s = stats();
  return s.trace_bytes + s.plan_bytes + s.code_bytes;
}

class MemoryBoundTest : public ::testing::Test {
 protected:
  void SetUp() override {
    clear();
    testing::WaitForCompiler();
    torch::manual_seed(1);
    x_ = torch::rand({1000, 4});
    options_.backend = Backend::kReplay;
    options_.hot_threshold = 4;
    options_.cache_dir = "off";
  }
  void TearDown() override {
    disable();
    clear();
  }
  void Enable() { ASSERT_TRUE(enable(options_)); }
  // Steps of these numbers, compared with eager's bits.
  void Run(std::uint32_t first, std::uint32_t count, int times = 25) {
    for (std::uint32_t n = first; n < first + count; ++n) {
      std::vector<at::Tensor> ours;
      for (int i = 0; i < times; ++i) {
        ours.push_back(Step(x_, n));
        if (i % 8 == 0) testing::WaitForCompiler();
      }
      sync();
      {
        const Pause pause;
        const at::Tensor eager = Step(x_, n);
        for (const at::Tensor& y : ours) ASSERT_TRUE(SameBits(y, eager));
      }
      testing::WaitForCompiler();  // evicts
    }
  }

  Options options_;
  at::Tensor x_;
};

// malloc is asked, which knows nothing of how tjit counts.
TEST_F(MemoryBoundTest, PlansAreCounted) {
  Enable();
  Run(0, 20);
  const std::int64_t before = InUse(), kept = Kept();
  Run(20, 200);
  const auto in_use = static_cast<double>(InUse() - before);
  const auto counted = static_cast<double>(Kept() - kept);
  EXPECT_GT(stats().plan_bytes, 200 * kOps * 100);
  EXPECT_EQ(stats().evictions, 0) << stats().to_json();
  std::printf("replay: %.0f KB counted, %.0f KB of malloc\n", counted / 1024,
              in_use / 1024);
  EXPECT_GT(counted, 0.6 * in_use);
  EXPECT_LT(counted, 1.5 * in_use);
}

TEST_F(MemoryBoundTest, CodeIsCounted) {
  options_ = MachineCodeAtOnce();
  Enable();
  const Stats cold = stats();
  Run(0, 20);
  if (stats().replays_tier2 == cold.replays_tier2) {
    GTEST_SKIP() << "no machine code here";
  }
  const std::int64_t before = InUse(), kept = Kept();
  const std::int64_t code = stats().code_bytes;
  Run(20, 60);
  const auto in_use = static_cast<double>(InUse() - before);
  const auto counted = static_cast<double>(Kept() - kept);
  EXPECT_GT(stats().code_bytes - code, 60 * 4096);
  std::printf("code: %.0f KB counted, %.0f KB of malloc\n", counted / 1024,
              in_use / 1024);
  EXPECT_GT(counted, 0.6 * in_use);
  EXPECT_LT(counted, 1.7 * in_use);  // pages of code are not malloc's
}

TEST_F(MemoryBoundTest, ClearGivesItBack) {
  options_ = MachineCodeAtOnce();
  Enable();
  Run(0, 10);
  EXPECT_GT(Kept(), 100 * 1024);
  clear();
  // The worker frees the old store, and its own kernels behind that. What runs
  // until then is not prepared.
  options_ = Options();
  options_.backend = Backend::kReplay;
  options_.hot_threshold = 1000000;
  options_.cache_dir = "off";
  Enable();
  for (int i = 0; i < 100 && Kept() >= 100 * 1024; ++i) {
    Step(x_, 0);
    testing::WaitForCompiler();
  }
  EXPECT_LT(Kept(), 100 * 1024) << stats().to_json();
}

// The store stays, as a thread rests in it, so nothing is there for the worker
// to free: kernels go without that.
TEST_F(MemoryBoundTest, ClearGivesKernelsBackWhileAThreadRests) {
  options_ = MachineCodeAtOnce();
  Enable();
  std::atomic<int> phase = 0;
  std::thread other([&] {
    Step(x_, 0);
    phase = 1;
    phase.notify_all();
    phase.wait(1);
  });
  phase.wait(0);
  const Stats cold = stats();
  Run(1, 10);
  const Stats hot = stats();
  clear();
  testing::WaitForCompiler();
  const Stats cleared = stats();
  phase = 2;
  phase.notify_all();
  other.join();
  if (hot.replays_tier2 == cold.replays_tier2) {
    GTEST_SKIP() << "no machine code here";
  }
  EXPECT_GT(hot.code_bytes, 100 * 1024);
  EXPECT_LT(cleared.code_bytes, 10 * 1024) << cleared.to_json();
}

// Never more than is allowed, and what is run goes on being replayed.
TEST_F(MemoryBoundTest, TheBoundHolds) {
  options_.max_memory_mb = 4;
  Enable();
  const Stats before = stats();
  for (std::uint32_t k = 0; k < 20; ++k) {
    Run(20 * k, 20);
    EXPECT_LE(Kept(), 4 * kMB) << k;
  }
  const Stats did = stats() - before;
  EXPECT_GE(did.evictions, 2) << did.to_json();
  // Of 26 runs of each four make it hot, and one is eager.
  EXPECT_GE(did.ops_replayed, did.ops_seen * 3 / 4) << did.to_json();
  EXPECT_THAT(explain(), ::testing::HasSubstr("were forgotten"));
}

TEST_F(MemoryBoundTest, TheBoundHoldsForCode) {
  options_ = MachineCodeAtOnce();
  options_.max_memory_mb = 4;
  Enable();
  const Stats before = stats();
  for (std::uint32_t k = 0; k < 10; ++k) {
    Run(20 * k, 20);
    EXPECT_LE(Kept(), 4 * kMB) << k << stats().to_json();
  }
  const Stats did = stats() - before;
  if (did.replays_tier2 == 0) GTEST_SKIP() << "no machine code here";
  EXPECT_GE(did.evictions, 2) << did.to_json();
  // Of 26 runs of each four make it hot, and one is eager.
  EXPECT_GE(did.ops_replayed, did.ops_seen * 3 / 4) << did.to_json();
}

TEST_F(MemoryBoundTest, WithoutABoundNothingIsForgotten) {
  Enable();
  const Stats before = stats();
  Run(0, 200);
  EXPECT_EQ(stats().evictions, before.evictions);
  EXPECT_GT(Kept(), 6 * kMB);
}

// One sequence that would need more for itself is not kept, and that is said;
// it is not recorded and left again and again.
TEST_F(MemoryBoundTest, WhatNeedsMoreIsNotKept) {
  options_.max_memory_mb = 1;
  Enable();
  const Stats before = stats();
  const auto step = [&] { return Step(x_, 1, 3000); };
  std::vector<at::Tensor> ours;
  for (int i = 0; i < 60; ++i) {
    ours.push_back(step());
    testing::WaitForCompiler();
    EXPECT_LE(Kept(), kMB);
  }
  sync();
  const Stats did = stats() - before;
  EXPECT_LE(did.evictions, 1) << did.to_json();
  EXPECT_GE(did.side_exit_count("store_full"), 1) << did.to_json();
  EXPECT_THAT(explain(), ::testing::HasSubstr("TJIT_MAX_MEMORY_MB"));
  disable();
  const at::Tensor eager = step();
  for (const at::Tensor& y : ours) ASSERT_TRUE(SameBits(y, eager));
}

// Room that only records have at first is taken back when the plans come.
TEST_F(MemoryBoundTest, WhatFitsWithoutItsPlansIsLeftOnce) {
  options_.max_memory_mb = 1;
  Enable();
  const Stats before = stats();
  const auto step = [&] { return Step(x_, 1, 550); };
  for (int i = 0; i < 60; ++i) {
    step();
    testing::WaitForCompiler();
  }
  sync();
  Run(2, 5);
  EXPECT_LE(Kept(), kMB);
  EXPECT_GE((stats() - before).evictions, 1) << stats().to_json();
  EXPECT_LE((stats() - before).evictions, 2) << stats().to_json();
  EXPECT_GT((stats() - before).ops_replayed, 1000);
}

// Each thread has plans of its own; those of a thread that has ended count until
// the next store takes them away.
TEST_F(MemoryBoundTest, PlansOfThreads) {
  options_.max_memory_mb = 4;
  Enable();
  const auto work = [&] { Run(0, 40); };
  for (int i = 0; i < 4; ++i) std::thread(work).join();
  std::thread one([&] { Run(100, 60); });
  std::thread other([&] { Run(300, 60); });
  one.join();
  other.join();
  Run(500, 60);
  EXPECT_LE(Kept(), 4 * kMB) << stats().to_json();
}

// A thread that lives and runs no op keeps what it stands in. The others go on
// being replayed, and nothing is left again and again for its sake.
TEST_F(MemoryBoundTest, AThreadThatRests) {
  options_.max_memory_mb = 4;
  Enable();
  std::atomic<bool> has_run{false}, ends{false};
  std::thread resting([&] {
    Run(0, 60);
    has_run.store(true);
    while (!ends.load()) std::this_thread::yield();
  });
  while (!has_run.load()) std::this_thread::yield();
  const Stats before = stats();
  Run(100, 300);
  const Stats did = stats() - before;
  ends.store(true);
  resting.join();
  EXPECT_LE(did.evictions, 20) << did.to_json();
  EXPECT_GE(did.ops_replayed, did.ops_seen / 2) << did.to_json();
}

TEST_F(MemoryBoundTest, RefusesWhatIsNoBound) {
  options_.max_memory_mb = -1;
  EXPECT_THROW(enable(options_), c10::Error);
  options_.max_memory_mb = 1000001;
  EXPECT_THROW(enable(options_), c10::Error);
}

}  // namespace
}  // namespace tjit

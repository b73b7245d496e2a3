// A log that begins and ends while three threads run ops: no row is lost or
// torn between its beginning and its end, and nothing is written behind it.
//
// The test asks as `tjit attach` does, its own process.
#include <ATen/ops/add.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/jit.h>
#include <tjit/tjit.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "recorder/instruction_log_reader.h"
#include "tools/tjit/attached_process.h"

namespace tjit {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tools::AttachedProcess;

constexpr const char* kOps[] = {"aten::add.Tensor", "aten::add.Tensor",
                                "aten::tanh", "aten::sum.dim_IntList",
                                "aten::_local_scalar_dense"};

// 5 ops.
float Step(at::Tensor* x, at::Tensor* y) {
  *y = at::add(*x, *y, 0.125);
  *x = at::tanh(at::add(*y, *x));
  return at::sum(*x).item<float>();
}

float Steps(int count) {
  at::Tensor x = at::ones({16}), y = x;
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += Step(&x, &y);
  return sum;
}

// True if it is so within a minute.
template <class Condition>
bool Comes(const Condition& is_so) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

struct Counted {
  std::uint64_t ops = 0, replays = 0, open = 0, open_replays = 0;
  std::map<std::string, std::vector<std::string>> by_source;
  LogEnd end = LogEnd::kRunning;
};

Counted ReadLog(const std::string& path) {
  InstructionLog log;
  std::string why;
  Counted counted;
  EXPECT_EQ(log.Open(path, &why), InstructionLog::Opened::kYes) << why;
  LogRow row;
  while (log.Next(/*is_live=*/false, &row)) {
    counted.open += row.is_open ? 1 : 0;
    const bool is_replay = row.event == LogEvent::kReplay;
    counted.replays += is_replay ? 1 : 0;
    counted.open_replays += is_replay && row.is_open ? 1 : 0;
    if (row.event != LogEvent::kOp) continue;
    ++counted.ops;
    counted.by_source[row.source].push_back(row.command);
  }
  EXPECT_THAT(log.Damage(), IsEmpty());
  counted.end = log.end();
  return counted;
}

class AttachTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(enable());
    ASSERT_EQ(process_.Find(static_cast<std::uint32_t>(getpid())), "");
    ASSERT_EQ(process_.OwnLog(), "");
    folder_ = std::filesystem::temp_directory_path() /
              ("attach_test." + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    disable();
    std::filesystem::remove_all(folder_);
  }

  std::string Path(const std::string& name) const { return folder_ / name; }
  void Ask(const std::string& name, std::uint64_t length_ms = 60000) {
    AttachedProcess::Wanted wanted;
    wanted.path = Path(name);
    wanted.length_ms = length_ms;
    process_.Ask(wanted);
  }

  AttachedProcess process_;
  std::filesystem::path folder_;
};

TEST_F(AttachTest, BeginsAndEndsWhileThreadsRun) {
  constexpr int kThreads = 3, kLogs = 30;
  std::vector<float> sums(kThreads);
  std::vector<std::atomic<int>> steps(kThreads);
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t](const std::stop_token& is_over) {
      at::Tensor x = at::ones({16}), y = x;
      while (!is_over.stop_requested()) {
        sums[t] += Step(&x, &y);
        ++steps[t];
      }
    });
  }
  for (const std::atomic<int>& count : steps) {
    ASSERT_TRUE(Comes([&] { return count > 20; }));
  }
  std::uint64_t replays = 0;
  for (int i = 0; i < kLogs; ++i) {
    const std::string name = std::to_string(i) + ".log";
    Ask(name);
    EXPECT_TRUE(Comes([&] { return process_.State() == AttachState::kRuns; }));
    EXPECT_EQ(process_.Text(), Path(name));
    // Some end at once, some when threads have filled their chunks.
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * (i % 5)));
    process_.Stop();
    EXPECT_TRUE(Comes([&] { return process_.State() == AttachState::kEnded; }));
    EXPECT_EQ(process_.Text(), "");
    const Counted counted = ReadLog(Path(name));
    EXPECT_EQ(counted.end, LogEnd::kDetached);
    EXPECT_LE(counted.open, static_cast<std::uint64_t>(2 * kThreads));
    EXPECT_LE(counted.by_source.size(), static_cast<std::size_t>(kThreads));
    replays += counted.replays;
    for (const auto& [source, names] : counted.by_source) {
      // Each goes on from where it was.
      for (std::size_t n = 5; n < names.size(); ++n) {
        ASSERT_EQ(names[n], names[n - 5]) << source << " " << n;
      }
      for (std::size_t n = 0; n < std::min<std::size_t>(names.size(), 5); ++n) {
        EXPECT_THAT(kOps, ::testing::Contains(names[n]));
      }
    }
  }
  threads.clear();
  EXPECT_GT(replays, 1000u);
  EXPECT_GT(stats().ops_replayed, 1000);
  disable();
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(sums[t], Steps(steps[t]));
}

// A segment that runs for long: its row stays open in the log that has ended,
// and the next one has none of it.
TEST_F(AttachTest, ASegmentOutlivesItsLog) {
  std::atomic<int> steps{0};
  std::jthread thread([&](const std::stop_token& is_over) {
    const at::Tensor w = at::rand({384, 384});
    while (!is_over.stop_requested()) {
      at::Tensor x = w;
      for (int i = 0; i < 8; ++i) x = at::tanh(at::mm(x, w));
      at::sum(x).item<float>();
      ++steps;
    }
  });
  ASSERT_TRUE(Comes([&] { return steps > 20; }));
  int outlived = 0;
  for (int i = 0; i < 8; ++i) {
    Ask("a.log");
    Steps(1);
    const int before = steps;
    EXPECT_TRUE(Comes([&] { return steps > before + 1; }));
    process_.Stop();
    Steps(1);
    Ask("b.log");
    Steps(1);
    const int between = steps;
    EXPECT_TRUE(Comes([&] { return steps > between + 1; }));
    process_.Stop();
    Steps(1);
    outlived += ReadLog(Path("a.log")).open_replays != 0 ? 1 : 0;
    EXPECT_GT(ReadLog(Path("b.log")).ops, 6u);
  }
  EXPECT_GT(outlived, 1);
}

TEST_F(AttachTest, EndsByItself) {
  Steps(100);
  Ask("a.log", 2000);
  Steps(1);
  EXPECT_EQ(process_.State(), AttachState::kRuns);
  std::this_thread::sleep_for(std::chrono::milliseconds(2010));
  Steps(1);
  EXPECT_EQ(process_.State(), AttachState::kEnded);
  // fill_, and the step.
  EXPECT_EQ(ReadLog(Path("a.log")).ops, 6u);
}

TEST_F(AttachTest, AnotherRequestEndsTheLastOne) {
  Ask("a.log");
  Steps(2);
  Ask("b.log");
  Steps(3);
  process_.Stop();
  Steps(1);
  EXPECT_EQ(ReadLog(Path("a.log")).ops, 11u);
  EXPECT_EQ(ReadLog(Path("b.log")).ops, 16u);
}

TEST_F(AttachTest, WhatIsPausedIsSeen) {
  const Pause pause;
  Ask("a.log");
  Steps(2);
  process_.Stop();
  Steps(1);
  EXPECT_EQ(ReadLog(Path("a.log")).ops, 11u);
}

// Replayed, a function has no op: under a log it runs, and is replayed again
// afterwards.
TEST_F(AttachTest, FunctionsRunUnderALog) {
  const auto body = [](const at::Tensor& x) {
    return at::tanh(at::add(x, x)).mul(2);
  };
  auto f = jit(body);
  const at::Tensor x = at::rand({64});
  for (int i = 0; i < 20; ++i) f(x);
  const auto replays = [] { return stats().jit_replays; };
  const std::int64_t before = replays();
  f(x);
  ASSERT_EQ(replays(), before + 1);
  Ask("a.log");
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(at::equal(f(x), body(x)));
  EXPECT_EQ(replays(), before + 1);
  process_.Stop();
  EXPECT_TRUE(at::equal(f(x), body(x)));
  EXPECT_GT(replays(), before + 1);
  const Counted counted = ReadLog(Path("a.log"));
  std::uint64_t tanhs = 0;
  for (const std::string& name : counted.by_source.at("MAIN")) {
    tanhs += name == "aten::tanh" ? 1 : 0;
  }
  EXPECT_EQ(tanhs, 20u);
}

TEST_F(AttachTest, AnOpThatThrows) {
  Steps(20);
  Ask("a.log");
  EXPECT_ANY_THROW(at::add(at::ones({2}), at::ones({3})));
  process_.Stop();
  Steps(1);
  const Counted counted = ReadLog(Path("a.log"));
  EXPECT_EQ(counted.by_source.at("MAIN").size(), counted.ops);
  EXPECT_EQ(counted.open, 0u);
}

TEST_F(AttachTest, WhatCannotBeWrittenIsAnswered) {
  ::testing::internal::CaptureStderr();
  Ask("missing/a.log");
  Steps(1);
  EXPECT_EQ(process_.State(), AttachState::kRefused);
  EXPECT_THAT(process_.Text(), HasSubstr("No such file or directory"));
  Ask("a.log");
  Steps(1);
  EXPECT_EQ(process_.State(), AttachState::kRuns);
  process_.Stop();
  Steps(1);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace tjit

// The public functions of tjit.h: off until asked for, scopes, options,
// mark_opaque, clear, and counters that add up after every op.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tjit {
namespace {

using ::testing::HasSubstr;

Options Fast() {
  Options o;
  o.hot_threshold = 2;
  return o;
}

// Four ops, and `own` if it is given.
at::Tensor Step(at::Tensor x,
                const std::function<at::Tensor(const at::Tensor&)>& own = {}) {
  x = at::tanh(x * 1.25);
  if (own) x = own(x);
  x = (x + 0.5) - x * x;
  mark_step();
  return x;
}

Stats StatsOf(const std::function<void()>& body) {
  const Stats before = stats();
  body();
  sync();
  return stats() - before;
}

Stats StatsOfSteps(
    int steps, const std::function<at::Tensor(const at::Tensor&)>& own = {}) {
  at::Tensor x = at::ones({8});
  mark_step();
  return StatsOf([&] {
    for (int i = 0; i < steps; ++i) x = Step(x, own);
  });
}

// CPU kernels of the table that are ours.
int WrappedEntries() {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  int wrapped = 0;
  for (const c10::OperatorName& name :
       dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::CPU)) {
    const auto op = dispatcher.findOp(name);
    if (op.has_value() &&
        op->dumpComputedTable().find("registered by tjit") != std::string::npos) {
      ++wrapped;
    }
  }
  return wrapped;
}

// These end in a process of their own, where nothing was switched on before.
class FreshProcess : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

// Ends the process with 0 if both hold, else says which does not.
[[noreturn]] void Finish(bool first, bool second, const std::string& note) {
  std::fprintf(stderr, "first %d, second %d: %s\n", first, second,
               note.c_str());
  std::_Exit(first && second ? 0 : 1);
}

TEST_F(FreshProcess, HasTheOriginalEntriesUntilEnabled) {
  EXPECT_EXIT(
      {
        const int off = WrappedEntries();
        const Stats d = StatsOfSteps(20);
        enable();
        const int on = WrappedEntries();
        Finish(off == 0 && d.ops_seen == 0, on > 500,
               std::to_string(off) + " then " + std::to_string(on));
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(FreshProcess, RemembersWhatWasMarkedOpaqueBefore) {
  EXPECT_EXIT(
      {
        mark_opaque("aten::erf");
        enable(Fast());
        const auto erf = [](const at::Tensor& x) { return at::erf(x); };
        StatsOfSteps(20, erf);
        const Stats d = StatsOfSteps(10, erf);
        Finish(d.ops_eager == 10, d.ops_replayed == 50, d.to_json());
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(FrontDoor, OpaqueOpsRunAtTheCall) {
  const auto cosh = [](const at::Tensor& x) { return at::cosh(x); };
  const auto sinh = [](const at::Tensor& x) { return at::sinh(x); };
  clear();
  ASSERT_TRUE(enable(Fast()));
  StatsOfSteps(20, cosh);
  EXPECT_EQ(StatsOfSteps(10, cosh).ops_eager, 0);
  mark_opaque("aten::cosh");
  StatsOfSteps(20, cosh);
  const Stats d = StatsOfSteps(10, cosh);
  EXPECT_EQ(d.ops_eager, 10) << d.to_json();
  EXPECT_EQ(d.ops_replayed, 50) << d.to_json();
  StatsOfSteps(20, sinh);
  EXPECT_EQ(StatsOfSteps(10, sinh).ops_eager, 0);
  disable();
}

TEST(FrontDoor, OpaqueNeedsAName) {
  try {
    mark_opaque("");
    FAIL() << "nothing was thrown";
  } catch (const c10::Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("ns::op.overload"));
  }
}

TEST(FrontDoor, OptionsOutOfRangeAreRefused) {
  for (const std::int64_t bad : {0, 1, 1000001}) {
    Options options;
    options.hot_threshold = bad;
    try {
      enable(options);
      FAIL() << bad << " was taken";
    } catch (const c10::Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("hot_threshold is " +
                                      std::to_string(bad) +
                                      "; accepted are 2 to 1000000"));
    }
  }
}

TEST(FrontDoor, CountersAddUpAfterEveryOp) {
  clear();
  ASSERT_TRUE(enable(Fast()));
  const Stats before = stats();
  std::int64_t most_pending = 0;
  const auto check = [&](at::Tensor x) {
    const Stats d = stats() - before;
    const std::int64_t pending =
        d.ops_deferred - d.ops_replayed - d.ops_drained;
    EXPECT_EQ(d.ops_seen, d.ops_eager + d.ops_replayed + d.ops_drained +
                              pending);
    EXPECT_GE(pending, 0);
    most_pending = std::max(most_pending, pending);
    return x;
  };
  at::Tensor x = at::ones({8});
  for (int i = 0; i < 60; ++i) {
    x = check(x * 1.25);
    x = check(at::tanh(x));
    // Leaves the trace with two ops pending.
    if (i % 16 == 15) x = check(at::floor(x));
    x = check(x + 0.5);
    x = check(x - x[0].item<float>());
    if (i % 2 == 0) mark_step();
  }
  sync();
  const Stats d = stats() - before;
  disable();
  EXPECT_EQ(d.ops_seen, d.ops_eager + d.ops_replayed + d.ops_drained);
  EXPECT_GT(d.ops_replayed, 60) << d.to_json();
  EXPECT_GT(d.ops_drained, 0) << d.to_json();
  EXPECT_GE(most_pending, 2);
}

TEST(FrontDoor, CompileAllPromotesAfterTheFirstRun) {
  clear();
  Options options;
  options.compile_all = true;
  ASSERT_TRUE(enable(options));
  const Stats all = StatsOfSteps(6);
  clear();
  ASSERT_TRUE(enable());
  const Stats ten = StatsOfSteps(6);
  disable();
  EXPECT_GE(all.ops_replayed, 4 * 5) << all.to_json();
  EXPECT_EQ(ten.ops_replayed, 0) << ten.to_json();
}

TEST(FrontDoor, ClearForgetsEveryTrace) {
  clear();
  ASSERT_TRUE(enable(Fast()));
  StatsOfSteps(20);
  EXPECT_EQ(StatsOfSteps(1).ops_eager, 0);
  clear();
  EXPECT_EQ(stats().trace_steps, 0);
  EXPECT_EQ(StatsOfSteps(1).ops_replayed, 0);
  disable();
}

TEST(FrontDoor, ExposedInputsAreCopiedAndCounted) {
  clear();
  ASSERT_TRUE(enable(Fast()));
  at::Tensor scale = at::ones({8});
  scale.data_ptr<float>()[3] = 2;
  const Stats d = StatsOf([&] {
    at::Tensor x;
    for (int i = 0; i < 20; ++i) {
      x = Step(scale * scale);
      EXPECT_EQ(x.numel(), 8);
    }
  });
  disable();
  // Used twice in a step, copied once.
  EXPECT_GT(d.inputs_copied, 10) << d.to_json();
  EXPECT_LE(d.inputs_copied, 20) << d.to_json();
}

TEST(FrontDoor, ThePeakOfMemoryStartsAnewAndIsExact) {
  ASSERT_TRUE(enable(Fast()));
  wait_until_compiled();  // what the worker holds it gives back
  static_cast<void>(at::empty({1 << 20}));
  reset_memory_peak();
  const std::int64_t kept = stats().memory_peak_bytes;
  {
    const at::Tensor small = at::empty({10});
    EXPECT_EQ(stats().memory_peak_bytes, kept + 40);
    const at::Tensor other = at::empty({100});
  }
  EXPECT_EQ(stats().memory_peak_bytes, kept + 440);
  reset_memory_peak();
  EXPECT_EQ(stats().memory_peak_bytes, kept);
  disable();
}

TEST(AutoCompileTest, AThreadsScope) {
  clear();
  disable();
  Stats here, elsewhere;
  {
    const AutoCompile on(AutoCompile::Scope::kThread, Fast());
    EXPECT_TRUE(is_enabled());
    std::thread other([&] {
      EXPECT_FALSE(is_enabled());
      elsewhere = StatsOfSteps(20);
    });
    other.join();
    {
      const AutoCompile nested(AutoCompile::Scope::kThread, Fast());
      EXPECT_TRUE(is_enabled());
    }
    here = StatsOfSteps(20);
    EXPECT_TRUE(is_enabled());
  }
  EXPECT_FALSE(is_enabled());
  EXPECT_EQ(elsewhere.ops_seen, 0);
  EXPECT_GT(here.ops_replayed, 50) << here.to_json();
  EXPECT_EQ(StatsOfSteps(20).ops_seen, 0);
}

TEST(AutoCompileTest, TheProcesssScope) {
  clear();
  disable();
  Stats elsewhere;
  {
    const AutoCompile on(AutoCompile::Scope::kProcess, Fast());
    std::thread other([&] { elsewhere = StatsOfSteps(20); });
    other.join();
  }
  EXPECT_FALSE(is_enabled());
  EXPECT_GT(elsewhere.ops_replayed, 50) << elsewhere.to_json();
  ASSERT_TRUE(enable(Fast()));
  { const AutoCompile on(AutoCompile::Scope::kProcess, Fast()); }
  EXPECT_TRUE(is_enabled());
  disable();
}

TEST(AutoCompileTest, ValuesAreThereAtTheEnd) {
  clear();
  disable();
  at::Tensor x = at::ones({8});
  {
    const AutoCompile on(AutoCompile::Scope::kThread, Fast());
    for (int i = 0; i < 20; ++i) x = Step(x);
    x = at::tanh(x * 1.25);  // pending
  }
  const Stats s = stats();
  EXPECT_EQ(s.ops_seen, s.ops_eager + s.ops_replayed + s.ops_drained);
}

}  // namespace
}  // namespace tjit

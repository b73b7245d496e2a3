// TJIT_SHADOW=sample:N: about one of N runs of a sequence is compared with
// eager, the others run as if nothing were compared, and what is wrong is found
// sooner or later.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/jit.h>
#include <tjit/tjit.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

using ::testing::HasSubstr;

Options Sampled(std::int64_t n, Backend backend = Backend::kReplay) {
  Options options;
  options.hot_threshold = 2;
  options.backend = backend;
  options.compile_all = backend != Backend::kReplay;
  options.cache_dir = "off";
  options.shadow_sample = n;
  return options;
}

class SampledShadowTest : public Tier2Test {
 protected:
  void SetUp() override { before_ = stats(); }
  Stats Since() const { return stats() - before_; }

  Stats before_;
};

// Compiled code runs by itself (RunCodeAlone()), as it does only where nothing
// watches, in the runs between as often as without samples.
TEST_F(SampledShadowTest, OtherRunsGoTheOrdinaryWay) {
  const at::Tensor x = at::rand({64}), w = at::rand({64});
  const auto loop = [=] {
    return [=](int i) { return at::mul(at::add(x, w, 1 + i % 3), w).sub(x); };
  };
  const std::vector<at::Tensor> want = RunSteps(loop);
  std::int64_t alone[2] = {};
  for (const bool samples : {false, true}) {
    ASSERT_TRUE(enable(Sampled(samples ? 20 : 0, Backend::kLlvm)));
    for (int i = 0; i < 8; ++i) RunSteps(loop);  // until there is code
    const Stats before = stats();
    EXPECT_EQ(CountDifferences(want, RunSteps(loop)), 0);
    const Stats s = stats() - before;
    EXPECT_EQ(s.shadow_mismatches, 0);
    EXPECT_GE(s.shadow_samples, samples ? kSteps / 20 - 1 : 0);
    EXPECT_LE(s.shadow_samples, samples ? kSteps / 20 + 1 : 0);
    EXPECT_GT(s.replays_tier2, kSteps * 9 / 10);
    alone[samples] = s.replays_alone;
    disable();
    clear();
  }
  EXPECT_GT(alone[false], 50);
  EXPECT_GT(alone[true], alone[false] * 8 / 10);
}

// Machine code may have another NaN than eager (docs/limits.md): that is no
// difference. A NaN in the place of a number is one: the defect lost_nan in
// tests/acceptance/replay_command_test.py.
TEST_F(SampledShadowTest, ANanIsAsGoodAsAnother) {
  const at::Tensor x = at::full({64}, std::nanf(""));
  x.fill_(-x[0]);
  const auto step = [&] { return at::mul(at::add(x, 1), -1).cos(); };
  const at::Tensor want = step();
  Options options = Sampled(0, Backend::kLlvm);
  options.shadow = true;
  ASSERT_TRUE(enable(options));
  bool has_other_nan = false;
  for (int i = 0; i < 40; ++i) {
    const at::Tensor y = step();
    mark_step();
    testing::WaitForCompiler();
    has_other_nan |= !SameBits(y, want);
    EXPECT_TRUE(y.isnan().all().item<bool>());
  }
  const Stats s = Since();
  EXPECT_GT(s.groups_run, 10);
  EXPECT_GT(s.shadow_checks, 20);
  EXPECT_EQ(s.shadow_mismatches, 0);
  EXPECT_TRUE(has_other_nan) << "the test has lost its subject";
}

// Functions of jit() are replayed as ever; they have a check of their own.
TEST_F(SampledShadowTest, FunctionsAreReplayed) {
  auto f = jit([](const at::Tensor& x) { return (x * 2 + 1).relu().exp(); },
               {.name = "f"});
  ASSERT_TRUE(enable(Sampled(3)));
  const at::Tensor x = at::rand({8, 8});
  for (int i = 0; i < 50; ++i) f(x);
  EXPECT_GT(Since().jit_replays, 30);
}

// So is it where modes were on, on this thread and on others.
TEST_F(SampledShadowTest, ModesThatHaveEndedCostNothing) {
  const at::Tensor x = at::rand({64}), w = at::rand({64});
  const auto loop = [=] {
    return [=](int i) { return at::mul(at::add(x, w, 1 + i % 3), w).sub(x); };
  };
  const std::vector<at::Tensor> want = RunSteps(loop);
  auto f = jit([](const at::Tensor& t) { return (t * 2 + 1).relu().exp(); },
               {.name = "after_modes"});
  std::atomic<bool> is_over = false;
  std::thread waits([&] {
    const at::NoGradGuard no_grad;
    at::add(x, w);
    while (!is_over) {
      at::add(x, w);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (int i = 0; i < 8; ++i) RunSteps(loop);
    const Stats before = stats();
    EXPECT_EQ(CountDifferences(want, RunSteps(loop)), 0);
    EXPECT_GT((stats() - before).replays_alone, 50);
  });
  for (int mode = 0; mode < 6; ++mode) {
    Options options = Sampled(0, Backend::kLlvm);
    options.shadow = mode == 0;
    options.stress = mode == 1   ? Stress::kLate
                     : mode == 2 ? Stress::kCheck
                     : mode == 4 ? Stress::kShuffle
                                 : Stress::kNone;
    options.nan = mode == 3;
    options.strict = mode == 5;
    ASSERT_TRUE(enable(options));
    EXPECT_EQ(CountDifferences(want, RunSteps(loop)), 0) << mode;
    f(x);
    EXPECT_EQ(Since().jit_replays, 0) << mode;
    disable();
    clear();
  }
  ASSERT_TRUE(enable(Sampled(0, Backend::kLlvm)));
  for (int i = 0; i < 8; ++i) RunSteps(loop);
  const Stats before = stats();
  EXPECT_EQ(CountDifferences(want, RunSteps(loop)), 0);
  EXPECT_GT((stats() - before).replays_alone, 50);
  for (int i = 0; i < 20; ++i) f(x);
  EXPECT_GT(Since().jit_replays, 10);
  is_over = true;
  waits.join();
}

// A function is called where a run that is compared is under way, and its trace
// goes on with what the program calls behind it.
TEST_F(SampledShadowTest, FunctionsEndARunThatIsCompared) {
  const auto shorter = [](const at::Tensor& x) { return x.relu().exp(); };
  const auto longer = [=](const at::Tensor& x) {
    return shorter(x).sin().cos();
  };
  auto f = jit(shorter, {.name = "shorter", .verify_every = 0});
  auto g = jit(longer, {.name = "longer", .verify_every = 0});
  std::vector<at::Tensor> xs;
  for (int i = 0; i < 400; ++i) xs.push_back(at::rand({64}));
  const auto run = [&](auto&& function) {
    std::vector<at::Tensor> results;
    for (int i = 0; i < 400; ++i) {
      const at::Tensor y = (xs[i] * 0.5).tanh() + xs[i];
      if (i < 60 || i % 2 == 1) {
        results.push_back((y - 1).abs().sqrt());
      } else {
        results.push_back(function(y).sin().cos() * 2);
      }
      mark_step();
    }
    sync();
    return results;
  };
  const std::vector<at::Tensor> want = run(shorter);
  for (const std::int64_t n : {3, 50}) {
    const Stats before = stats();
    ASSERT_TRUE(enable(Sampled(n)));
    for (const at::Tensor& x : xs) {
      g(x);
      f(x);
    }
    EXPECT_EQ(CountDifferences(want, run(f)), 0) << n;
    const Stats s = stats() - before;
    EXPECT_EQ(s.shadow_mismatches, 0) << n;
    EXPECT_GT(s.shadow_samples, 0) << n;
    EXPECT_GT(s.jit_replays, 400) << n;
    disable();
  }
}

TEST_F(SampledShadowTest, ComparesOneRunOfN) {
  for (const std::int64_t n : {2, 7, 50}) {
    at::manual_seed(3);
    const auto loop = PlainLoop();
    disable();
    clear();
    const std::vector<at::Tensor> want = RunSteps(loop);
    const Stats before = stats();
    ASSERT_TRUE(enable(Sampled(n)));
    EXPECT_EQ(CountDifferences(want, RunSteps(loop)), 0) << n;
    sync();
    const Stats s = stats() - before;
    // One in each whole block of n runs, but for what was not replayed yet.
    const std::int64_t runs = kSteps / n;
    EXPECT_GE(s.shadow_samples, runs - 1 - 8 / n) << n;
    EXPECT_LE(s.shadow_samples, runs + 1) << n;
    // A step leaves a value, and so does its clone().
    EXPECT_GE(s.shadow_checks, s.shadow_samples) << n;
    EXPECT_LE(s.shadow_checks, 2 * s.shadow_samples) << n;
    EXPECT_EQ(s.shadow_mismatches, 0) << n;
    EXPECT_EQ(s.ops_seen, s.ops_eager + s.ops_replayed + s.ops_drained) << n;
    EXPECT_GT(s.ops_replayed, 6 * (kSteps - 20)) << n;
  }
}

// One of one run is every run: TJIT_SHADOW=1 under another name.
TEST_F(SampledShadowTest, SampleOfOneIsAllOfThem) {
  Options options = Sampled(1);
  std::vector<std::int64_t> checks;
  for (const bool all : {false, true}) {
    options.shadow = all;
    options.shadow_sample = all ? 0 : 1;
    const Stats before = stats();
    ASSERT_TRUE(enable(options));
    RunSteps(PlainLoop(), 50);
    disable();
    clear();
    checks.push_back((stats() - before).shadow_checks);
    EXPECT_EQ((stats() - before).shadow_samples, 0);
  }
  EXPECT_GT(checks[0], 40);
  EXPECT_EQ(checks[0], checks[1]);
}

TEST_F(SampledShadowTest, ZeroComparesNothing) {
  ASSERT_TRUE(enable(Sampled(0)));
  RunSteps(PlainLoop(), 50);
  EXPECT_GT(Since().ops_replayed, 100);
  EXPECT_EQ(Since().shadow_samples + Since().shadow_checks, 0);
}

TEST_F(SampledShadowTest, NamesWhatItAccepts) {
  for (const std::int64_t n : {std::int64_t{-1}, std::int64_t{1000000001}}) {
    try {
      enable(Sampled(n));
      FAIL() << n;
    } catch (const c10::Error& e) {
      EXPECT_THAT(e.what(), HasSubstr("shadow_sample is " + std::to_string(n) +
                                      "; accepted are 0 (none) to 1000000000"));
    }
  }
}

struct Planting {
  const char* defect;
  Backend backend;
};
class SampledDefectTest : public SampledShadowTest,
                          public ::testing::WithParamInterface<Planting> {};

// A value changes with each step, so that what is stale is wrong.
std::function<Program()> ChangingLoop() {
  const at::Tensor x = at::rand({16, 16}), w = at::rand({16, 16});
  return [=] { return [=](int i) { return Step(x, w, 1 + 0.125 * i); }; };
}

TEST_P(SampledDefectTest, IsFoundAndTheTraceIsLeft) {
  const auto [defect, backend] = GetParam();
  for (const std::int64_t n : {1, 20}) {
    testing::SetPlantedDefect("");
    disable();
    clear();
    const auto loop = ChangingLoop();
    const std::vector<at::Tensor> want = RunSteps(loop);
    if (!testing::SetPlantedDefect(defect)) GTEST_SKIP() << "not built in";
    const Stats before = stats();
    ASSERT_TRUE(enable(Sampled(n, backend)));
    ::testing::internal::CaptureStderr();
    const std::vector<at::Tensor> got = RunSteps(loop);
    const std::string said = ::testing::internal::GetCapturedStderr();
    const Stats s = stats() - before;
    EXPECT_GT(s.shadow_mismatches, 0) << n;
    EXPECT_GT(s.side_exit_count("shadow_mismatch"), 0) << n;
    EXPECT_THAT(said, HasSubstr("TJIT_SHADOW: trace ")) << n;
    if (backend != Backend::kReplay) {
      EXPECT_GT(s.groups_run, 0) << n;
    }
    // From the run that was compared on all is eager's.
    int wrong = 0;
    for (int i = 0; i < kSteps; ++i) wrong += SameBits(want[i], got[i]) ? 0 : 1;
    EXPECT_LE(wrong, n == 1 ? 0 : 2 * n) << n;
    const Stats left = stats();
    EXPECT_EQ(CountDifferences(want, RunSteps(loop)), 0) << n;
    EXPECT_EQ((stats() - left).ops_deferred, 0) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SampledDefectTest,
    ::testing::Values(Planting{"stale_scalar", Backend::kReplay},
                      Planting{"no_execute", Backend::kReplay},
                      Planting{"swapped_operands", Backend::kInterpreter},
                      Planting{"swapped_operands", Backend::kLlvm},
                      Planting{"stale_kernel_scalar", Backend::kInterpreter}),
    [](const auto& info) {
      return std::string(info.param.defect) + "_" +
             std::to_string(static_cast<int>(info.param.backend));
    });

// A sequence that comes once among 16 of another is counted by itself, and two
// that come in turn do not stay in step with the counting.
TEST_F(SampledShadowTest, RareAndAlternatingSequencesAreLookedAt) {
  const at::Tensor x = at::rand({16, 16}), w = at::rand({16, 16});
  for (const int rare : {2, 16}) {
    testing::SetPlantedDefect("");
    disable();
    clear();
    // Only the rare sequence subtracts, which the defect is about.
    const auto step = [&](int i) {
      return i % rare == 1 ? at::mul(at::sub(x, w), w).exp()
                           : at::mul(at::add(x, w), w).tanh();
    };
    if (!testing::SetPlantedDefect("swapped_operands")) {
      GTEST_SKIP() << "not built in";
    }
    const Stats before = stats();
    ASSERT_TRUE(enable(Sampled(4, Backend::kInterpreter)));
    for (int i = 0; i < 20 * rare; ++i) {
      const at::Tensor kept = step(i);
      mark_step();
      testing::WaitForCompiler();
    }
    EXPECT_GT((stats() - before).groups_run, 0) << rare;
    EXPECT_GT((stats() - before).shadow_mismatches, 0) << rare;
  }
}

TEST_F(SampledShadowTest, EachThreadComparesItsRuns) {
  ASSERT_TRUE(enable(Sampled(5)));
  const auto loop = PlainLoop();
  std::thread other([&] { RunSteps(loop, 200, /*waits=*/false); });
  RunSteps(loop, 200, /*waits=*/false);
  other.join();
  EXPECT_GT(Since().shadow_samples, 60);
  EXPECT_LT(Since().shadow_samples, 90);
  EXPECT_EQ(Since().shadow_mismatches, 0);
}

// A run that is compared may leave its sequence, throw, or be cut by an option.
TEST_F(SampledShadowTest, ARunThatEndsElsewhereIsOver) {
  const at::Tensor x = at::rand({8, 8}), w = at::rand({8, 8});
  const auto run = [&](int i) {
    at::Tensor a = at::add(x, w).mul(w);
    if (i % 5 == 4) a = a.tanh();  // another way
    if (i % 7 == 6) {
      EXPECT_THROW(at::mm(a, at::ones({3})), c10::Error);
    }
    return at::mm(a, w).sub(x);
  };
  std::vector<at::Tensor> want, got;
  for (int i = 0; i < 300; ++i) want.push_back(run(i));
  ASSERT_TRUE(enable(Sampled(2)));
  for (int i = 0; i < 300; ++i) {
    got.push_back(run(i));
    mark_step();
    if (i == 150) {  // a mode begins, and ends, in between
      Options options = Sampled(2);
      options.strict = true;
      ASSERT_TRUE(enable(options));
    }
    if (i == 200) {
      ASSERT_TRUE(enable(Sampled(2)));
    }
  }
  sync();
  EXPECT_EQ(CountDifferences(want, got), 0);
  EXPECT_GT(Since().shadow_samples, 50);
  EXPECT_EQ(Since().shadow_mismatches, 0);
  const Stats s = Since();
  EXPECT_EQ(s.ops_seen, s.ops_eager + s.ops_replayed + s.ops_drained);
}

}  // namespace
}  // namespace tjit

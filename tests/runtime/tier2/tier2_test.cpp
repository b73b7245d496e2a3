// Tier 2 end to end, with the interpreter as its engine: hot segments run with
// compiled groups in them, give eager's bits, and survive what happens to
// segments, threads and processes meanwhile.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <sys/wait.h>
#include <tjit/tjit.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/testing.h"
#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

using ::testing::Not;

TEST_F(Tier2Test, GroupsRunAndGiveTheBitsOfEager) {
  EXPECT_EQ(Differences(PlainLoop()), 0);
  EXPECT_GT(stats_.replays_tier2, 100) << stats_.to_json();
  EXPECT_GT(stats_.replays_tier1, 0);
  EXPECT_EQ(stats_.replays_tier1 + stats_.replays_tier2, stats_.segments);
  EXPECT_GE(stats_.groups_run, stats_.replays_tier2);
  EXPECT_GE(stats_.steps_fused, 4 * stats_.groups_run);
  EXPECT_GE(stats_.kernels_compiled, 1);
  EXPECT_GT(stats_.compile_ns, 0);
  EXPECT_EQ(stats_.compiles_failed, 0);
  EXPECT_EQ(stats_.recompiles, 0);
}

TEST_F(Tier2Test, ReplayCompilesNothing) {
  Options options = WithInterpreter();
  options.backend = Backend::kReplay;
  const Stats before = stats();
  EXPECT_TRUE(enable(options));
  RunSteps(PlainLoop());
  disable();
  const Stats d = stats() - before;
  EXPECT_GT(d.replays_tier1, 100);
  EXPECT_EQ(d.replays_tier2 + d.groups_run + d.kernels_compiled, 0);
}

TEST_F(Tier2Test, WhatIsWrittenInPlaceIsWrittenBack) {
  EXPECT_EQ(Differences(Momentum()), 0);
  EXPECT_GT(stats_.groups_run, 100) << stats_.to_json();
}

TEST_F(Tier2Test, MachineCodeGivesTheBitsOfEager) {
  for (const auto& make : {PlainLoop(), Momentum()}) {
    EXPECT_EQ(Differences(make, Backend::kLlvm), 0);
    EXPECT_GE(stats_.kernels_compiled, 1) << stats_.to_json();
    EXPECT_EQ(stats_.compiles_failed, 0);
    // Compiled code that does not pay is given up.
    EXPECT_GT(stats_.groups_run, 10);
    clear();
  }
}

// A mask of bytes seen as bools: eager's copies make 1 of 255, but for those of
// large transposes, and cat() keeps it.
std::function<Program()> BytesOfBools(std::int64_t n) {
  std::vector<at::Tensor> bytes(3);
  for (at::Tensor& b : bytes) {
    b = at::randint(2, {n, n}, at::kByte).mul_(255).add_(at::eye(n, at::kByte));
  }
  return [=] {
    return [=](int step) {
      const at::Tensor mask =
          bytes[static_cast<std::size_t>(step) % 3].view(at::kBool);
      const at::Tensor numbers =
          at::where(mask, 1.0, 2.0).add_(mask).mul_(mask).sub_(0.5);
      return at::cat({at::cat({mask, mask}), mask.clone(),
                      at::zeros_like(mask).copy_(mask), mask.t().contiguous(),
                      mask.expand({2, n, n}).contiguous()[0], mask & mask.t(),
                      numbers.gt(0.75)})
          .view(at::kByte);
    };
  };
}

TEST_F(Tier2Test, BytesOfBoolsThatAreNeitherZeroNorOne) {
  for (const std::int64_t n : {4, 70}) {
    for (const Backend backend :
         {Backend::kReplay, Backend::kInterpreter, Backend::kLlvm}) {
      EXPECT_EQ(Differences(BytesOfBools(n), backend), 0) << n;
      EXPECT_GT(stats_.ops_replayed, 2000) << stats_.to_json();
      EXPECT_EQ(stats_.steps_fused > 100, backend != Backend::kReplay);
      clear();
    }
  }
}

TEST_F(Tier2Test, AnOptimizerInBothEngines) {
  for (const Backend backend : {Backend::kInterpreter, Backend::kLlvm}) {
    EXPECT_EQ(Differences(Adam(), backend), 0);
    EXPECT_GT(stats_.groups_run, 10) << stats_.to_json();
    clear();
  }
}

TEST_F(Tier2Test, ManyOpsInBothEngines) {
  for (const Backend backend : {Backend::kInterpreter, Backend::kLlvm}) {
    EXPECT_EQ(Differences(ManyOps(), backend), 0);
    EXPECT_GT(stats_.groups_run, 10) << stats_.to_json();
    EXPECT_GT(stats_.steps_fused, 8 * stats_.groups_run);
    clear();
  }
}

// A field that moves on a torus and is joined of its planes; pads and chunks.
std::function<Program()> RolledPlanes() {
  at::manual_seed(3);
  const at::Tensor field = at::rand({3, 9, 12});
  return [=] {
    return [=](int) {
      const at::Tensor hit = at::relu(at::sub(at::mul(field, field), 0.25));
      const at::Tensor moved =
          at::stack({at::roll(hit[0], {1, -1}, {0, 1}),
                     at::roll(hit[1], {0, 2}, {0, 1}), at::neg(hit[2])});
      const at::Tensor padded = at::constant_pad_nd(at::abs(moved), {1, 2}, 3);
      const auto halves = at::chunk(at::mul(padded, 0.5), 3, 2);
      return at::cat({halves[2], at::add(halves[0], halves[1])}, 2);
    };
  };
}

TEST_F(Tier2Test, RollsAndJoinsInBothEngines) {
  for (const Backend backend : {Backend::kInterpreter, Backend::kLlvm}) {
    EXPECT_EQ(Differences(RolledPlanes(), backend), 0);
    EXPECT_EQ(stats_.compiles_failed, 0);
    EXPECT_GT(stats_.groups_run, 10) << stats_.to_json();
    // All 14 ops are in two groups, rolls, cats and the padding too.
    EXPECT_GE(stats_.steps_fused, 7 * stats_.groups_run);
    clear();
  }
}

TEST_F(Tier2Test, ANegatedNaNHasTheOtherSign) {
  at::Tensor x = at::randn({100});
  x.slice(0, 0, 100, 3).fill_(std::nan(""));
  x.slice(0, 1, 100, 6).fill_(-std::nan(""));
  const auto negate = [=]() -> Program {
    return [=](int) {
      return at::cat(
          {at::neg(at::reciprocal(x)), at::neg(x * 3), at::neg(x / 7)});
    };
  };
  for (const Backend backend : {Backend::kInterpreter, Backend::kLlvm}) {
    EXPECT_EQ(Differences(negate, backend), 0);
    EXPECT_GT(stats_.groups_run, 10) << stats_.to_json();
    clear();
  }
}

// Numbers of all exponents, the special ones among them, roots between other
// ops.
std::function<Program()> Roots(at::ScalarType type, std::int64_t n) {
  at::manual_seed(9);
  const at::Tensor x =
      at::randint(-(1L << 62), 1L << 62, {n}, at::kLong).view(at::kDouble);
  const at::Tensor all =
      type == at::kDouble ? x.abs() : x.view(at::kInt).view(at::kFloat).abs();
  const double special[] = {0, -0.0, 1, -1, INFINITY, NAN, 4, 1e-40, 1e-310};
  for (int i = 0; i < 9; ++i) all[i].fill_(special[i]);
  return [=] {
    return [=](int) {
      const at::Tensor root = at::neg(at::sqrt(all));
      return at::cat({root, at::add(at::sqrt(at::abs(root)), 1)});
    };
  };
}

TEST_F(Tier2Test, RootsInAnyArithmetic) {
  const unsigned usual = _mm_getcsr();
  constexpr unsigned kFlush = 0x8040, kUp = 0x4000;
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const unsigned mode : {0U, kFlush, kUp}) {
      for (const Backend backend : {Backend::kInterpreter, Backend::kLlvm}) {
        _mm_setcsr(usual | mode);
        const int differences = Differences(Roots(type, 1003), backend);
        _mm_setcsr(usual);
        EXPECT_EQ(differences, 0) << type << " " << mode;
        EXPECT_GT(stats_.groups_run, 10) << stats_.to_json();
        // In kernels are all ops, or all but the roots.
        const double fused = static_cast<double>(stats_.steps_fused) /
                             static_cast<double>(stats_.groups_run);
        EXPECT_EQ(fused > 5, mode == 0) << fused;
        clear();
      }
    }
  }
}

// 5.9 MB, which every other run goes over from its end (loop_chain.h).
TEST_F(Tier2Test, LargeLoopsTurnBack) {
  at::manual_seed(7);
  const at::Tensor x = at::randn({700, 700}), y = at::randn({700, 700});
  const auto make = [&] {
    return [=, sum = x](int) mutable {
      sum = sum * 0.5 + y;
      return sum;
    };
  };
  const std::int64_t before = testing::RunsTurnedBack();
  EXPECT_EQ(Differences(make, Backend::kLlvm), 0);
  EXPECT_GT(stats_.groups_run, 10) << stats_.to_json();
  EXPECT_NEAR(testing::RunsTurnedBack() - before, stats_.groups_run / 2, 5);
}

// By one divisor, in f64: in kernels, products with its reciprocal, which are
// quotients where they are rounded to the nearest only.
TEST_F(Tier2Test, QuotientsInAnyArithmetic) {
  const unsigned usual = _mm_getcsr();
  constexpr unsigned kFlush = 0x8040, kUp = 0x4000;
  at::manual_seed(6);
  const at::Tensor x = at::randn({3, 4001}, at::kDouble);
  const at::Tensor y = at::rand({4001}, at::kDouble) + 0.5;
  const auto make = [&] {
    return [&](int) {
      return at::neg(at::stack({x[0] / y, x[1] / y, x[2] / y, x[0] / 3.0}));
    };
  };
  for (const unsigned mode : {0U, kFlush, kUp}) {
    _mm_setcsr(usual | mode);
    const int differences = Differences(make, Backend::kLlvm);
    _mm_setcsr(usual);
    EXPECT_EQ(differences, 0) << mode;
    EXPECT_GT(stats_.groups_run, 10) << stats_.to_json();
    // In kernels are all ops, or all but the quotients.
    EXPECT_EQ(stats_.steps_fused > 5 * stats_.groups_run, mode == 0);
    clear();
  }
}

// Matrix products between large temporaries, of which one survives.
std::function<Program()> LargeTemporaries() {
  at::manual_seed(4);
  const at::Tensor x = at::randn({64, 64}), w = at::randn({64, 64});
  return [=] {
    return [=](int) {
      const at::Tensor a = at::mm(x, w), b = at::mm(a.relu(), w);
      return at::mm(at::tanh(b), x);
    };
  };
}

TEST_F(Tier2Test, TemporariesInSurvivorsGiveTheBitsOfEager) {
  for (const Backend backend :
       {Backend::kReplay, Backend::kInterpreter, Backend::kLlvm}) {
    EXPECT_EQ(Differences(LargeTemporaries(), backend), 0);
    EXPECT_GT(stats_.segments, 100) << stats_.to_json();
    EXPECT_GT(stats_.memory_plans, 0);
    clear();
  }
}

// x[1,n] and x[n,1] are the same elements in the same order, and broadcast
// another way.
std::function<Program()> ColumnAndRow() {
  at::manual_seed(2);
  const at::Tensor column = at::randn({5, 1});
  const at::Tensor other = at::randn({5});
  return [=] {
    return [=](int) {
      const at::Tensor row = column.transpose(0, 1);
      const at::Tensor small = at::div(row, at::add(at::abs(row), 1));
      return at::add(at::add(other, column), small);
    };
  };
}

TEST_F(Tier2Test, AColumnIsNotTakenForARow) {
  EXPECT_EQ(Differences(ColumnAndRow()), 0);
  EXPECT_GT(stats_.groups_run, 10) << stats_.to_json();
}

// A scalar that is always the same while the segment is compiled, and then
// differs at every step.
std::function<Program()> LateScalar() {
  const at::Tensor x = at::rand({16, 16});
  const at::Tensor w = at::rand({16, 16});
  return [=] {
    return [=](int i) { return Step(x, w, i < kSteps / 2 ? 0.5 : 0.01 * i); };
  };
}

TEST_F(Tier2Test, AScalarThatWasCompiledInIsLookedAt) {
  EXPECT_EQ(Differences(LateScalar()), 0);
  EXPECT_EQ(stats_.recompiles, 1) << stats_.to_json();
  EXPECT_GT(stats_.groups_run, kSteps / 2);
}

// Four scalars that are always the same, and one after the other are not.
std::function<Program()> LateScalars() {
  const at::Tensor x = at::rand({16, 16});
  const at::Tensor w = at::rand({16, 16});
  return [=] {
    return [=](int i) {
      const auto number = [i](int since) { return i < since ? 0.5 : 0.01 * i; };
      const at::Tensor y = at::sub(at::add(x, w, number(100)), w, number(150));
      return y.add_(x, number(200)).sub_(w, number(250));
    };
  };
}

TEST_F(Tier2Test, ASegmentIsCompiledAgainThreeTimesAtMost) {
  EXPECT_EQ(Differences(LateScalars()), 0);
  EXPECT_EQ(stats_.recompiles, 3) << stats_.to_json();
  EXPECT_GT(stats_.replays_tier2, 200);
  EXPECT_LT(stats_.replays_tier2, 250);
  EXPECT_GE(stats_.replays_tier1, 150);
}

TEST_F(Tier2Test, PlantedDefectsShow) {
  testing::SetPlantedDefect("stale_kernel_scalar");
  EXPECT_GT(Differences(LateScalar()), 0);
  clear();
  testing::SetPlantedDefect("lost_write_back");
  EXPECT_GT(Differences(Momentum()), 0);
  clear();
  testing::SetPlantedDefect("early_publication");
  EXPECT_GT(Differences(PlainLoop()), 0);
}

// Code that is there for speed is measured; this segment has six steps and the
// copy of what they give.
TEST_F(Tier2Test, WhatWasMeasuredIsExplained) {
  Options options = WithInterpreter();
  options.backend = Backend::kLlvm;
  EXPECT_TRUE(enable(options));
  const Program step = PlainLoop()();
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  const auto explained = [] {
    return explain().find("  7 ops from aten::add.Tensor: ") !=
           std::string::npos;
  };
  EXPECT_FALSE(explained());
  while (!explained() && std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < kSteps; ++i) {
      const at::Tensor result = step(i).clone();
      mark_step();
    }
  }
  EXPECT_THAT(explain(),
              ::testing::ContainsRegex("a run instead of .*, compiled in "
                                       ".*(: switched off|wins? back)\n"));
  clear();
  EXPECT_FALSE(explained());
}

// Runs with library calls take turns with it for as long as it takes to see
// that, on one thread or several: some eight.
TEST_F(Tier2Test, CodeThatIsClearlyFasterSoonRunsAlways) {
  const at::Tensor x = at::rand({256, 256});
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    Options options = WithInterpreter();
    options.backend = Backend::kLlvm;
    ASSERT_TRUE(enable(options));
    const auto step = [&] {
      at::Tensor y = x;
      for (int i = 0; i < 8; ++i) y = at::add(at::mul(y, 0.5), x);
      mark_step();
    };
    const std::int64_t before = stats().replays_tier2;
    for (int i = 0; i < 5000 && stats().replays_tier2 == before; ++i) step();
    const Stats first = stats();
    ASSERT_GT(first.replays_tier2, before);
    for (int i = 0; i < 40; ++i) step();
    const Stats did = stats() - first;
    EXPECT_LE(did.replays_tier1, 12) << did.to_json();
    EXPECT_GE(did.replays_tier2, 28) << did.to_json();
    disable();
    clear();
  }
  at::set_num_threads(1);
}

// Code that takes a fifth of a millisecond longer than it does.
TEST_F(Tier2Test, CodeThatDoesNotPayIsSwitchedOff) {
  const auto make = PlainLoop();
  const at::Tensor eager = RunSteps(make, 1, false).back();
  testing::SetCodeDelayNs(200'000);
  Options options = WithInterpreter();
  options.backend = Backend::kLlvm;
  options.debug_compile = true;
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(enable(options));
  const Program step = make();
  const Stats before = stats();
  int differences = 0;
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      const at::Tensor result = step(i).clone();
      mark_step();
      differences += SameBits(result, eager) ? 0 : 1;
    }
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while ((stats() - before).tier2_switched_off == 0 &&
         std::chrono::steady_clock::now() < end) {
    run(kSteps);
  }
  const Stats measured = stats();
  run(kSteps);
  const Stats after = stats() - measured;
  testing::SetCodeDelayNs(0);
  disable();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(differences, 0);
  EXPECT_EQ((measured - before).tier2_switched_off, 1) << said;
  // Three comparisons.
  EXPECT_GE((measured - before).groups_run, 3 * 15);
  EXPECT_LT((measured - before).groups_run, 3 * 15 * 4);
  EXPECT_GE(after.replays_tier1, kSteps - 1) << after.to_json();
  EXPECT_EQ(after.replays_tier2 + after.groups_run + after.recompiles, 0);
  EXPECT_THAT(said, ::testing::ContainsRegex(
                        "\\[COMPILE\\] Fallback: library calls, a segment of 7 "
                        "ops from aten::add.Tensor: .* a run instead of .*, "
                        "compiled in .*: switched off\n"));
  EXPECT_THAT(explain(), ::testing::HasSubstr("switched off, as library calls "
                                              "are as fast: "));
  EXPECT_THAT(explain(), ::testing::ContainsRegex(
                             "  7 ops from aten::add.Tensor: .*switched off"));
}

TEST_F(Tier2Test, AnInterpreterIsNotMeasured) {
  EXPECT_EQ(Differences(PlainLoop()), 0);
  EXPECT_EQ(stats_.steps_dead, 0);
  EXPECT_THAT(explain(), Not(::testing::HasSubstr("compiled in")));
}

// The tangent is dropped before anything could read it; the other seven run.
TEST_F(Tier2Test, OpsThatNothingNeedsAreCounted) {
  const auto make = [program = PlainLoop()] {
    return [step = program()](int i) {
      const at::Tensor result = step(i);
      at::tan(result);
      return result;
    };
  };
  EXPECT_EQ(Differences(make), 0);
  EXPECT_GT(stats_.steps_dead, kSteps / 2) << stats_.to_json();
  EXPECT_EQ(stats_.steps_dead, stats_.segments);
  EXPECT_EQ(8 * stats_.steps_dead, stats_.ops_replayed);
}

// Everything that asked may be gone before the worker has finished.
TEST_F(Tier2Test, WhoAskedMayGo) {
  for (int round = 0; round < 20; ++round) {
    EXPECT_TRUE(enable(WithInterpreter()));
    std::thread([&] { RunSteps(PlainLoop(), 20 + round, false); }).join();
    if (round % 2 == 0) clear();
    if (round % 3 == 0) disable();
  }
  EXPECT_EQ(Differences(PlainLoop()), 0);
  EXPECT_GT(stats_.groups_run, 100);
}

TEST_F(Tier2Test, ThreadsCompileTheSameLoopOnce) {
  EXPECT_TRUE(enable(WithInterpreter()));
  const Stats before = stats();
  const auto program = PlainLoop();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] { RunSteps(program); });
  }
  for (std::thread& t : threads) t.join();
  const Stats d = stats() - before;
  EXPECT_GT(d.groups_run, 400) << d.to_json();
  EXPECT_GE(d.kernels_reused, 3);
}

TEST_F(Tier2Test, AForkedChildCompilesForItself) {
  EXPECT_TRUE(enable(WithInterpreter()));
  const auto program = PlainLoop();
  const at::Tensor expected = RunSteps(program, 30, false).back();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Stats before = stats();
    // Another loop, so that the child's own worker is needed.
    const bool same = SameBits(RunSteps(program).back(), expected);
    RunSteps(Momentum());
    const Stats d = stats() - before;
    _exit(same && d.groups_run > 100 && d.kernels_compiled > 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  const Stats before = stats();
  EXPECT_TRUE(SameBits(RunSteps(program).back(), expected));
  EXPECT_GT((stats() - before).groups_run, 100);
}

TEST_F(Tier2Test, DrainsAndShadowsWork) {
  testing::SetForcedDrainAt(3);
  EXPECT_EQ(Differences(PlainLoop()), 0);
  EXPECT_GT(stats_.ops_drained, 100);
  testing::SetForcedDrainAt(-1);
  clear();
  Options options = WithInterpreter();
  options.shadow = true;
  const Stats before = stats();
  EXPECT_TRUE(enable(options));
  RunSteps(PlainLoop());
  sync();
  const Stats d = stats() - before;
  EXPECT_GT(d.groups_run, 50) << d.to_json();
  EXPECT_GT(d.shadow_checks, 100);
  EXPECT_EQ(d.shadow_mismatches, 0);
}

}  // namespace
}  // namespace tjit

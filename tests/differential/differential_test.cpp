// What CI runs of the random programs: eager against tier 1, and against a
// drain at op k, over fixed seeds. The tool `differential` runs more of them.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/differential/ci_seeds.h"
#include "tests/differential/driver.h"
#include "tests/differential/families.h"

namespace tjit::differential {
namespace {

// How many failing programs are printed.
constexpr std::int64_t kMaxReports = 3;

// Runs all seeds, up to so many that fail, each of which is a failure.
Summary RunAndReport(const DriverConfig& config) {
  std::int64_t failed = 0;
  Summary summary = RunSeeds(config, [&](const SeedResult& result) {
    return result.status == SeedResult::Status::kSame ||
           ++failed < kMaxReports;
  });
  std::printf("%s\n", summary.ToString().c_str());
  for (const SeedResult& failure : summary.failures) {
    ADD_FAILURE() << Report(config, failure, /*shrink=*/true);
  }
  return summary;
}

Coverage ExpectSame(const DriverConfig& config, std::int64_t min_counted) {
  const Summary summary = RunAndReport(config);
  EXPECT_GE(summary.counted, min_counted);
  EXPECT_GE(summary.share, kCountedShare);
  return summary.coverage;
}

TEST(DifferentialTest, Tier1) {
  DriverConfig config;
  config.last = kCiSeeds;
  config.engine = Engine::kTier1;
  ExpectSame(config, kCiCounted);
}

TEST(DifferentialTest, Interpreter) {
  DriverConfig config;
  config.last = kCiInterpreterSeeds;
  config.engine = Engine::kInterpreter;
  ExpectSame(config, kCiInterpreterCounted);
}

TEST(DifferentialTest, Llvm) {
  DriverConfig config;
  config.last = kCiLlvmSeeds;
  config.engine = Engine::kLlvm;
  ExpectSame(config, kCiLlvmCounted);
}

TEST(DifferentialTest, Plain) {
  DriverConfig config;
  config.last = kCiPlainSeeds;
  config.engine = Engine::kPlain;
  ExpectSame(config, kCiPlainCounted);
}

TEST(DifferentialTest, Torchscript) {
  DriverConfig config;
  config.last = kCiTorchscriptSeeds;
  config.engine = Engine::kTorchscript;
  ExpectSame(config, kCiTorchscriptCounted);
}

DriverConfig ConfigFrom(std::uint64_t first, std::uint64_t seeds,
                        Engine engine) {
  DriverConfig config;
  config.first = first;
  config.last = first + seeds;
  config.engine = engine;
  return config;
}

DriverConfig ComplexConfig(Engine engine) {
  DriverConfig config = ConfigFrom(kFirstComplex, kCiComplexSeeds, engine);
  config.max_drains = kCiDrains;
  return config;
}

TEST(DifferentialTest, Complex) {
  for (const Engine engine : {Engine::kTier1, Engine::kForcedDrain}) {
    ExpectSame(ComplexConfig(engine), kCiComplexCounted);
  }
}

TEST(DifferentialTest, ComplexBesideMachineCode) {
  ExpectSame(ComplexConfig(Engine::kLlvm), kCiComplexCompiled);
}

DriverConfig LongRowsConfig(Engine engine, std::uint64_t seeds) {
  DriverConfig config = ConfigFrom(kFirstRows, seeds, engine);
  config.covers = true;
  return config;
}

TEST(DifferentialTest, LongRows) {
  Coverage ran =
      ExpectSame(LongRowsConfig(Engine::kLlvm, kCiRowsSeeds), kCiRowsCounted);
  // Along rows, whatever the program: as a library call it would count, too.
  for (const char* op : {"native_layer_norm", "norm"}) {
    EXPECT_NE((ran[{op, "f32"}].ways & kLongRows), 0u) << op << ToString(ran);
  }
}

// Rows of 32,768 elements and more are split by eager, or not.
TEST(DifferentialTest, LongRowsOfTwoThreads) {
  Coverage ran =
      ExpectSame(LongRowsConfig(Engine::kThreads, kCiRowsThreadsSeeds),
                 kCiRowsThreadsCounted);
  EXPECT_NE((ran[{"native_layer_norm", "f32"}].ways & kLongRows), 0u)
      << ToString(ran);
}

TEST(DifferentialTest, ForcedDrain) {
  DriverConfig config;
  config.last = kCiDrainSeeds;
  config.engine = Engine::kForcedDrain;
  config.max_drains = kCiDrains;
  ExpectSame(config, kCiDrainCounted);
}

TEST(DifferentialTest, Threads) {
  DriverConfig config;
  config.last = kCiThreadsSeeds;
  config.engine = Engine::kThreads;
  ExpectSame(config, kCiThreadsCounted);
}

TEST(DifferentialTest, Jit) {
  DriverConfig config;
  config.last = kCiJitSeeds;
  config.engine = Engine::kJit;
  EXPECT_GE(RunAndReport(config).counted, kCiJitCounted);
}

TEST(DifferentialTest, SideExit) {
  DriverConfig config;
  config.last = kCiExitSeeds;
  config.engine = Engine::kSideExit;
  ExpectSame(config, kCiExitCounted);
}

// Programs whose steps differ in length and in sizes. Lengths in a drawn order
// are known only after some hundred steps, so fewer of these programs count,
// and fewer of their ops, than of others.
TEST(DifferentialTest, Lengths) {
  DriverConfig config;
  config.last = kCiLengthsSeeds;
  config.family = FamilyIndex("lengths");
  config.covers = true;
  for (const Engine engine : {Engine::kTier1, Engine::kLlvm}) {
    config.engine = engine;
    const Summary summary = RunAndReport(config);
    EXPECT_GE(summary.counted, kCiLengthsCounted);
    EXPECT_GE(summary.share, kCiLengthsShare);
    if (engine != Engine::kLlvm) continue;
    for (const char* op : {"add", "mul", "tanh"}) {
      const auto ran = summary.coverage.find({op, "f32"});
      ASSERT_NE(ran, summary.coverage.end()) << op;
      EXPECT_NE(ran->second.ways & kLengths, 0u) << op;
    }
  }
}

// A thread is left alone for a few ops every few ops (TJIT_THREAD_TRIALS=turns,
// recorder/thread_trial.h): what is pending then, and what is followed, recorded
// or owned by other threads. Part of the hot ops are replayed, part are not.
TEST(DifferentialTest, Turns) {
  const char* const trials = std::getenv("TJIT_THREAD_TRIALS");
  if (trials == nullptr || std::string_view(trials) != "turns") {
    GTEST_SKIP() << "TJIT_THREAD_TRIALS is not turns";
  }
  for (const Engine engine :
       {Engine::kTier1, Engine::kLlvm, Engine::kThreads, Engine::kSideExit}) {
    DriverConfig config;
    config.last = kCiTurnsSeeds;
    config.engine = engine;
    const Summary summary = RunAndReport(config);
    EXPECT_GT(summary.share, 0.3);
    EXPECT_LT(summary.share, 0.9);
  }
}

}  // namespace
}  // namespace tjit::differential

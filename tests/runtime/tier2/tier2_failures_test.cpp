// Machine code that cannot be had: the program goes on at tier 1 with eager's
// bits, and the reason is said.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tjit/tjit.h>
#include <unistd.h>

#include <cerrno>
#include <ostream>
#include <string>

#include "compiler/abi/kernel_abi.h"
#include "runtime/testing.h"
#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFallback[] = "[COMPILE] Fallback: library calls for a group: ";

struct Outcome {
  int differences = 0;  // steps whose bits are not eager's
  Stats stats;
  std::string said;  // on stderr
  std::string explained;
};

Outcome RunUnderTjit() {
  constexpr int kFew = 60;
  const auto program = PlainLoop();
  const std::vector<at::Tensor> eager = RunSteps(program, kFew);
  Outcome outcome;
  const Stats before = stats();
  Options options = MachineCodeAtOnce();
  options.debug_compile = true;
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(enable(options));
  const std::vector<at::Tensor> ours = RunSteps(program, kFew);
  sync();
  outcome.stats = stats() - before;
  disable();
  outcome.said = ::testing::internal::GetCapturedStderr();
  outcome.explained = explain();
  for (int i = 0; i < kFew; ++i) {
    outcome.differences += SameBits(eager[i], ours[i]) ? 0 : 1;
  }
  return outcome;
}

void ExpectTier1(const Outcome& outcome, const std::string& why) {
  EXPECT_EQ(outcome.differences, 0);
  const Stats& s = outcome.stats;
  EXPECT_GT(s.replays_tier1, 50) << s.to_json();
  EXPECT_EQ(s.replays_tier1, s.segments);
  EXPECT_EQ(s.replays_tier2 + s.groups_run + s.steps_fused, 0) << s.to_json();
  EXPECT_EQ(s.kernels_compiled, 0);
  EXPECT_GT(s.compiles_failed, 0);
  EXPECT_THAT(outcome.said, HasSubstr(kFallback + why));
  EXPECT_THAT(outcome.explained,
              HasSubstr("groups of ops stay library calls because:\n"));
  EXPECT_THAT(outcome.explained, HasSubstr(why));
}

// What is compiled once nothing stands against it.
void ExpectCode() {
  const Outcome outcome = RunUnderTjit();
  EXPECT_EQ(outcome.differences, 0);
  EXPECT_GT(outcome.stats.groups_run, 40) << outcome.stats.to_json();
  EXPECT_EQ(outcome.stats.compiles_failed, 0);
  EXPECT_THAT(outcome.said, Not(HasSubstr("Fallback")));
}

void Reset() {
  testing::PlantInCompiler(0);
  testing::SetCompileBudgetNs(-1);
  disable();
  clear();
}

struct Failure {
  const char* name;
  std::uint32_t plant;
  const char* why;
};
void PrintTo(const Failure& failure, std::ostream* out) {
  *out << failure.name;
}

class Tier2FailuresTest : public ::testing::TestWithParam<Failure> {
 protected:
  void TearDown() override { Reset(); }
};

TEST_P(Tier2FailuresTest, TheProgramGoesOnAtTier1) {
  ExpectCode();
  Reset();
  testing::PlantInCompiler(GetParam().plant);
  ExpectTier1(RunUnderTjit(), GetParam().why);
  Reset();
  ExpectCode();
}

INSTANTIATE_TEST_SUITE_P(
    Planted, Tier2FailuresTest,
    ::testing::Values(Failure{"LlvmRejectsTheModule", kTjitLlvmPlantInvalid,
                              "LLVM does not accept the module: "},
                      Failure{"LlvmGivesUp", kTjitLlvmPlantFatal,
                              "LLVM gave up: planted by a test"},
                      Failure{"NoExecutablePages", kTjitLlvmPlantNoCode,
                              "the system gives no executable memory: "},
                      Failure{
                          "CodeMemoryExhausted", kTjitLlvmPlantNoMemory,
                          "no memory for 1152921504606846976 bytes of code: "},
                      Failure{"NoMemoryForLlvm", kTjitLlvmPlantNoHeap,
                              "LLVM gave up: no memory, planted by a test"},
                      Failure{"NoMemoryForObjectsOfLlvm", kTjitLlvmPlantThrow,
                              "std::bad_alloc"}),
    [](const auto& each) { return std::string(each.param.name); });

class Tier2LimitsTest : public ::testing::Test {
 protected:
  void TearDown() override { Reset(); }
};

TEST_F(Tier2LimitsTest, ACompileOverItsBudget) {
  testing::SetCompileBudgetNs(0);
  ExpectTier1(RunUnderTjit(),
              "the sequence took longer to compile than it may");
  Reset();
  ExpectCode();
}

// The real thing: pages that were written never become executable.
TEST_F(Tier2LimitsTest, ASystemThatForbidsExecutablePages) {
  constexpr int kSetMdwe = 65, kRefuseExecGain = 1;  // of Linux 6.3
  constexpr int kHasNone = 77;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (prctl(kSetMdwe, kRefuseExecGain, 0, 0, 0) != 0) _exit(kHasNone);
    ExpectTier1(RunUnderTjit(), "the system gives no executable memory: ");
    _exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kHasNone) {
    GTEST_SKIP() << "this kernel has no PR_SET_MDWE";
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace tjit

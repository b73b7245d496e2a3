// Where eager runs kernels that do not contract a product and a sum, compiled
// code would not have its bits: nothing is compiled. Graphs of TorchScript are
// eager's own ops.
// The test runs with ATEN_CPU_CAPABILITY=default.
#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include "runtime/testing.h"

namespace tjit {
namespace {

Stats RunSteps(Backend backend) {
  const at::Tensor x = at::rand({7, 9}), w = at::rand({7, 9});
  const auto step = [&] {
    return at::mul(at::sub(at::add(x, w, 0.3), w, 0.7), x);
  };
  const at::Tensor eager = step().clone();
  Options options;
  options.hot_threshold = 4;
  options.backend = backend;
  options.compile_all = backend == Backend::kLlvm;  // without a threshold
  const Stats before = stats();
  EXPECT_TRUE(enable(options));
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(at::equal(step(), eager));
    mark_step();
    testing::WaitForCompiler();
  }
  disable();
  clear();
  return stats() - before;
}

// That is said on stderr, once: machine code comes first.
TEST(Tier2CapabilityTest, PlainKernelsAreReplayedByLibraryCalls) {
  ASSERT_EQ(at::get_cpu_capability(), "DEFAULT");
  constexpr char kSaid[] =
      "tjit: libtorch runs its DEFAULT kernels, whose roundings compiled code "
      "has not; sequences are replayed by library calls. For compiled code run "
      "on a CPU with AVX2, without ATEN_CPU_CAPABILITY=default\n";
  const char* said = kSaid;
  for (const Backend backend : {Backend::kLlvm, Backend::kInterpreter}) {
    ::testing::internal::CaptureStderr();
    const Stats d = RunSteps(backend);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), said);
    EXPECT_GT(d.replays_tier1, 100);
    EXPECT_EQ(d.replays_tier2 + d.groups_run + d.kernels_compiled, 0);
    EXPECT_EQ(d.compiles_failed, 0);
    said = "";
  }
}

TEST(Tier2CapabilityTest, PlainKernelsRunInGraphs) {
  const Stats d = RunSteps(Backend::kTorchscript);
  EXPECT_GT(d.groups_run, 100);
  EXPECT_EQ(d.groups_run, d.replays_tier2);
}

}  // namespace
}  // namespace tjit

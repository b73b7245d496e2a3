// Where eager runs kernels that do not contract a product and a sum, compiled
// code would not have its bits: nothing is compiled. Graphs of TorchScript are
// eager's own ops.
// The test runs with ATEN_CPU_CAPABILITY=default.
#include <ATen/ATen.h>
#include <ATen/Version.h>
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

TEST(Tier2CapabilityTest, PlainKernelsAreReplayedByLibraryCalls) {
  ASSERT_EQ(at::get_cpu_capability(), "DEFAULT");
  const Stats d = RunSteps(Backend::kInterpreter);
  EXPECT_GT(d.replays_tier1, 100);
  EXPECT_EQ(d.replays_tier2 + d.groups_run + d.kernels_compiled, 0);
}

TEST(Tier2CapabilityTest, PlainKernelsRunInGraphs) {
  const Stats d = RunSteps(Backend::kTorchscript);
  EXPECT_GT(d.groups_run, 100);
  EXPECT_EQ(d.groups_run, d.replays_tier2);
}

}  // namespace
}  // namespace tjit

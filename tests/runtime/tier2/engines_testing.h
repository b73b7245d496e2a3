// Programs on both engines of tier 2, as the parameter of a test.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>
#include <tjit/tjit.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/runtime/tier2/tier2_testing.h"

namespace tjit {

class EnginesTest : public ::testing::TestWithParam<Backend> {
 protected:
  using OneStep = std::function<at::Tensor()>;

  explicit EnginesTest(int steps) : steps_(steps) {}

  void TearDown() override {
    disable();
    clear();
  }

  // Eager's bits, and groups that run.
  void ExpectSame(const OneStep& step, Stats* did) {
    const auto make = [&step] { return [&step](int) { return step(); }; };
    const std::vector<at::Tensor> eager = RunSteps(make, steps_);
    Options options = WithInterpreter();
    options.backend = GetParam();
    options.compile_all = true;
    const Stats before = stats();
    ASSERT_TRUE(enable(options));
    const std::vector<at::Tensor> ours = RunSteps(make, steps_);
    sync();
    const Stats d = stats() - before;
    disable();
    for (std::size_t i = 0; i < eager.size(); ++i) {
      ASSERT_TRUE(SameBits(eager[i], ours[i])) << "step " << i;
    }
    EXPECT_GE(d.kernels_compiled, 1) << d.to_json();
    EXPECT_EQ(d.compiles_failed, 0) << d.to_json();
    // Compiled code that does not pay is given up.
    EXPECT_GT(d.groups_run, 10) << d.to_json();
    *did = d;
    clear();
  }

  // All `ops` of the step, and the copy of its result, are in each group that
  // runs.
  void ExpectFused(const OneStep& step, int ops) {
    Stats d;
    ASSERT_NO_FATAL_FAILURE(ExpectSame(step, &d));
    EXPECT_EQ(d.steps_fused, (ops + 1) * d.groups_run) << d.to_json();
  }

  // All steps that run do so in groups.
  void ExpectNoCalls(const OneStep& step) {
    Stats d;
    ASSERT_NO_FATAL_FAILURE(ExpectSame(step, &d));
    EXPECT_EQ(d.steps_fused * d.segments,
              (d.ops_replayed - d.steps_dead) * d.replays_tier2)
        << d.to_json();
  }

  const int steps_;
};

inline const auto kEngines =
    ::testing::Values(Backend::kInterpreter, Backend::kLlvm);

inline std::string EngineName(const ::testing::TestParamInfo<Backend>& engine) {
  return engine.param == Backend::kLlvm ? "Llvm" : "Interpreter";
}

}  // namespace tjit

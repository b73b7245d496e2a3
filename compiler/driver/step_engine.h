// Engines that compile recorded steps as they are: to the ops of another
// runtime, not to functions of the IR.
//
// A group that it refuses is cut in two, down to steps that it takes alone: a
// result of one step that another one sees in a way that has no op.
//
// A group of such an engine has steps of one context (grad mode and what else
// kernels read), as it sets that for the whole group.
// Tested by: tests/compiler/driver/segment_code_test.cpp,
// tests/runtime/tier2/torchscript_test.cpp
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/driver/kernel.h"
#include "compiler/driver/segment.h"
#include "compiler/lower/group.h"

namespace tjit {

// Consecutive steps, and how their kernel meets the rest of the segment.
struct StepGroup {
  std::vector<const SegmentStep*> steps;
  std::vector<GroupSlot> slots;         // all that the steps use, ascending
  std::vector<std::int32_t> externals;  // not born here
  std::vector<std::int32_t> returns;    // born here, needed behind the group
  std::vector<ScalarSource> scalars;    // arguments: those that vary
};

class StepEngine : public Engine {
 public:
  // "" unless no kernel can have this step, given as a group of its own.
  virtual std::string WhyNotStep(const StepGroup& step) = 0;
  // A kernel whose memory is externals, then returns. Null, and *why says why,
  // if there is none.
  virtual std::shared_ptr<const Kernel> CompileSteps(const StepGroup& group,
                                                     std::string* why) = 0;

  SegmentCode CompileSegment(const SegmentInput& input, KernelCache* cache,
                             const CompileLimits& limits,
                             SegmentDump* dump) override;
  bool can_precompile() const override { return false; }
  bool PrecompileSegment(const SegmentInput& /*input*/, KernelCache* /*cache*/,
                         const std::atomic<bool>& /*stop*/) override {
    return true;
  }
  bool needs_contraction() const override { return false; }

  // No function is ever compiled.
  std::string WhyNot(const ir::Function& function) final;
  std::shared_ptr<const Kernel> Compile(const ir::Function& function,
                                        std::string* why) final;
};

}  // namespace tjit

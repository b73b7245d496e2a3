// What tests see of compiled code as it runs (testing.h: SetStepObserver).
// Without TJIT_PLANTED_DEFECTS it compiles away.
// Tested by: tests/differential/coverage_test.cpp
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/driver/segment_code.h"
#include "recorder/op_record.h"
#include "recorder/schema_key.h"

namespace tjit::runtime {

#if defined(TJIT_PLANTED_DEFECTS)
using StepObserver = void (*)(std::string_view, const StepRecord&,
                              const std::vector<std::uint64_t>&, bool);
extern std::atomic<StepObserver> g_step_observer;

// Shows the steps that the groups of `code` are about to run, then the others.
// Nodes: the steps of the segment.
template <typename Nodes>
void ObserveGroups(const SegmentCode& code, const Nodes& nodes,
                   const std::vector<std::uint64_t>& slot_bytes) {
  const StepObserver observer = g_step_observer.load(std::memory_order_relaxed);
  if (observer == nullptr) return;
  std::vector<bool> is_compiled(nodes.size());
  const auto show = [&](std::size_t i) {
    observer(OpName(nodes[i]->step.op), nodes[i]->step, slot_bytes,
             is_compiled[i]);
  };
  for (const CompiledGroup& group : code.groups) {
    for (const std::uint32_t i : group.steps) {
      is_compiled[i] = true;
      show(i);
    }
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!is_compiled[i]) show(i);
  }
}
#else
template <typename Nodes>
void ObserveGroups(const SegmentCode&, const Nodes&,
                   const std::vector<std::uint64_t>&) {}
#endif

}  // namespace tjit::runtime

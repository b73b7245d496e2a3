// Running is one pass over the placements and one over the steps.
#include "compiler/executable.h"

#include <utility>

namespace tjit {

Executable::Executable(const std::vector<ProgramStep>& steps, MemoryPlan plan)
    : plan_(std::move(plan)) {
  steps_.reserve(plan_.needed.size());
  for (std::uint32_t i : plan_.needed) steps_.push_back(steps[i]);
}

void Executable::Run(char** slots, const ScalarValue* scalars,
                     char* arena) const {
  for (const Placement& p : plan_.placements) {
    slots[p.slot] = (p.host < 0 ? arena : slots[p.host]) + p.offset;
  }
  for (const ProgramStep& step : steps_) {
    step.fn(step.state, slots, scalars + step.scalar_begin);
  }
}

}  // namespace tjit

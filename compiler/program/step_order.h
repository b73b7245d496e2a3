// The order of a program's steps: what makes a temporary out of memory that
// stays anyway waits for the first step that needs it.
//
// Stands before PlanMemory(), on the groups and library calls of a segment.
// Groups gather steps from far apart, and what they left between goes before
// them: fifty products of a loop's inputs would all be there before the first
// of them is used. A step that reads temporaries does not wait: it may be the
// last that needs them.
// Tested by: tests/compiler/program/order_steps_test.cpp
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/program/memory_plan.h"

namespace tjit {

// All steps by index, so that each sees the memory that it saw before: writes
// of a slot stay in order among themselves and among its reads.
// REQUIRES: as PlanMemory().
std::vector<std::uint32_t> OrderSteps(const std::vector<PlanStep>& steps,
                                      const std::vector<PlanSlot>& slots);

}  // namespace tjit

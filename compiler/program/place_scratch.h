// Where the scratch of a kernel lies: values that loops put into memory for
// loops behind them, and whose lifetimes do not meet, share it.
//
//   loop 0: %2 = ...    loop 1: %3 = f(%2)    loop 2: %4 = g(%3)
//   %2 and %4 may lie at the same place, %3 beside them
//
// Stands behind FormLoops(), with the sizes of a run.
// Tested by: tests/compiler/program/place_scratch_test.cpp
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/loops/form_loops.h"
#include "compiler/program/memory_plan.h"

namespace tjit {

// The scratch that each loop reads and writes, as numbers into plan.scratch.
// REQUIRES: FormLoops() made the plan.
std::vector<PlanStep> ScratchUses(const ir::Function& function,
                                  const LoopPlan& plan);

struct ScratchPlaces {
  std::vector<std::uint64_t> offsets;  // by scratch; multiples of 64
  std::uint64_t bytes = 0;             // of all together
};

// `bytes`: of each scratch.
ScratchPlaces PlaceScratch(std::vector<PlanStep> uses,
                           const std::vector<std::int64_t>& bytes);

}  // namespace tjit

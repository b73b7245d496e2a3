// Runs a plan loop by loop with memory for stored values only, so that a wrong
// plan gives wrong bits: the oracle's arithmetic in a plan's order.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/ir/interpreter.h"
#include "compiler/loops/form_loops.h"

namespace tjit {

// How the iterations of loops that may run in any order run: `lanes` at a time
// (all loads of an instruction, then the next instruction, then the stores),
// in an order by `seed` (0: forward).
struct RunOrder {
  std::int64_t lanes = 1;
  std::uint64_t seed = 0;
};

// Returns "" or what is wrong: an access beyond its memory, for one.
// REQUIRES: the externals do not overlap.
std::string RunLoops(const ir::Function& function, const LoopPlan& plan,
                     const ir::RunArguments& arguments, const RunOrder& order);

}  // namespace tjit

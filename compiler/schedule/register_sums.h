// Which sums of rows a loop adds up in registers (Note [Sums of registers] in
// row_sums.h): where all that it would have in buffers of elements is for such
// sums, of no more than some steps without calls.
// Tested by: tests/compiler/llvm/llvm_row_sums_test.cpp
#pragma once

#include <map>
#include <vector>

#include "compiler/schedule/phases.h"

namespace tjit::llvm_backend {

// The sums of registers of one phase.
struct PhaseSums {
  int group = 0;  // elements
  std::vector<const Step*> steps;
};
// Elements that are one lane of the sums: the vectors of sum_of_halves are
// folded before they are added up.
inline int ElementsOfLane(const Step& step) {
  return step.op == ir::Op::kSumOfHalves ? 2 : 1;
}

struct SumPlan {
  std::map<int, PhaseSums> phases;
  bool is_alone = false;  // nothing else reads rows: those of a tile need not
                          // fit a cache
};
// Empty if the loop takes none.
SumPlan PlanSums(const LoopCode& code, const Phases& phases,
                 const MathTable& math, int lanes);

}  // namespace tjit::llvm_backend

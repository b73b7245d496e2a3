// Decides which instructions share a loop, and in which order the loops run:
// the first half of FormLoops() (form_loops.h has the whole).
//
// How: every instruction begins as a cluster. Clusters merge along an edge that
// hands over element i in iteration i, or to rows loops what there is one of
// per row, if no other way leads from one to the other (a cycle) and no other
// edge between them needs memory; then reduce ops of other dims than the last
// take the clusters that only they read; then siblings merge that read one
// operand. What is left is sorted by dependences, by program order, and so that
// loops of the same kind (the same update of many parameters) stand together.
// Tested by: tests/compiler/loops/form_loops_test.cpp
#pragma once

#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/loops/form_loops.h"

namespace tjit {

// The loops in order, without stores. kNone: each instruction has its own.
// REQUIRES: no calls.
std::vector<Loop> Fuse(const ir::Function& function,
                       Fusion fusion = Fusion::kGreedy);

}  // namespace tjit

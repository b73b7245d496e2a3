// Decides which instructions share a loop, and in which order the loops run:
// the first half of FormLoops() (form_loops.h has the whole).
//
// How: every instruction begins as a cluster. Clusters merge along an edge that
// hands over element i in iteration i, if no other way leads from one to the
// other (a cycle) and no other edge between them needs memory; then reduce and
// row ops take the clusters that only they read; then siblings merge that read
// one operand. What is left is sorted by dependences, by program order, and so
// that loops of the same kind (the same update of many parameters) stand
// together.
// Tested by: tests/compiler/form_loops_test.cpp
#pragma once

#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/passes/form_loops.h"

namespace tjit {

// The loops in order, without stores. REQUIRES: no calls.
std::vector<Loop> Fuse(const ir::Function& function);

// The kind of loop and the iteration space that an instruction asks for.
LoopKind LoopKindOf(const ir::Instruction& in);
ir::Sizes LoopSizesOf(const ir::Function& function, const ir::Instruction& in);

// True if operand number `operand` may be the register of a value that the
// same loop has made.
bool TakesRegister(const ir::Function& function, const ir::Instruction& in,
                   std::size_t operand);

}  // namespace tjit

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
// Tested by: tests/compiler/form_loops_test.cpp
#pragma once

#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/loops/form_loops.h"

namespace tjit {

// The loops in order, without stores. kNone: each instruction has its own.
// REQUIRES: no calls.
std::vector<Loop> Fuse(const ir::Function& function,
                       Fusion fusion = Fusion::kGreedy);

// The kind of loop and the iteration space that an instruction asks for.
LoopKind LoopKindOf(const ir::Instruction& in);
ir::Sizes LoopSizesOf(const ir::Function& function, const ir::Instruction& in);

// True if operand number `operand` may be the register of a value that the
// same loop has made.
bool TakesRegister(const ir::Function& function, const ir::Instruction& in,
                   std::size_t operand);

// The dim of a row op that asks for a slabs loop; -1 of others.
int SlabDimOf(const ir::Instruction& in);
// The reduce or row op goes along the last dim.
bool IsAlongRows(const ir::Instruction& in);
// The reduce op goes over all dims but the last: Note [Columns].
bool IsAlongColumns(const ir::Instruction& in);
// The reduce op goes over all dims, and there is a function for it that takes
// the elements as they come: Note [Whole].
bool IsOverWhole(const ir::Instruction& in);
// Note [Rows] in form_loops.h. True if each element of the pointwise
// instruction reads what the value has for its row: all dims but the last.
bool ReadsRow(const ir::Function& function, const ir::Instruction& in,
              std::size_t operand);
// `rows` is `all` without its last dim.
bool AreRowsOf(const ir::Sizes& rows, const ir::Sizes& all);
// True of loops that may run in any order of their iterations, rows or columns.
bool RunsInParts(LoopKind kind);

}  // namespace tjit

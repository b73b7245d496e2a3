// Rows of a few elements, whose number is part of the code: as many rows at a
// time as fill whole registers, instead of a masked register for each.
//
//   [n0,6] of f64, 8 lanes: 4 rows are 3 registers
//   one element for each row:     0 0 0 0 0 0 1 1, 1 1 1 1 2 2 2 2, 2 2 3 3 ...
//   one element for each column:  0 1 2 3 4 5 0 1, 2 3 4 5 0 1 2 3, 4 5 0 1 ...
//
// The former are loaded once for these rows, the latter once for the loop, and
// the lanes put where they belong. Rows that are left over run one by one.
// Tested by: tests/compiler/llvm/llvm_layout_test.cpp
#pragma once

#include "compiler/llvm/block_emitter.h"
#include "compiler/schedule/narrow_row.h"

namespace tjit::llvm_backend {

// All rows of the call but those left over. Returns the first of these.
llvm::Value* EmitNarrowRows(const LoopContext& loop, int lanes);

}  // namespace tjit::llvm_backend

// Loops over rows of a few elements: whether a loop is one, and how many rows
// fill whole registers. llvm/narrow_rows.h has the code that is made of them.
// Tested by: tests/compiler/llvm/llvm_layout_test.cpp
#pragma once

#include "compiler/schedule/loop_code.h"

namespace tjit::llvm_backend {

// Elements of such a row; 0 if the loop is no such loop. REQUIRES: sizes are
// those of the function, not yet shared.
int NarrowRowOf(const LoopCode& code);

// How many rows fill registers; 0: there is nothing to gain.
int RowsAtATime(const LoopCode& code, int lanes);

// How the elements of an access of such a loop lie.
enum class NarrowAccess { kDense, kOfRow, kOfColumn, kOne, kOther };
// REQUIRES: the loop is narrow. The size of its rows may be shared.
NarrowAccess NarrowAccessOf(const MemoryAccess& access);

}  // namespace tjit::llvm_backend

// Computes equal things once: of two instructions with the same op, operands
// and type the second is replaced by the first.
//
// Stands behind fold and peephole, which make equal what was only equivalent.
// Two returned values stay two instructions: each has memory of its own.
// Tested by: tests/compiler/passes/passes_test.cpp,
// tests/filetests/ir/pass_cse.ir
// Source: Click, "Global Code Motion / Global Value Numbering", 1995: hashing
// in one sweep, which is enough for straight-line code.
#pragma once

#include "compiler/ir/ir.h"

namespace tjit {

ir::Function EliminateCommon(const ir::Function& function);

}  // namespace tjit

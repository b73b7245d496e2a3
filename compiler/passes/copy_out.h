// Gives every write-back and every return a value of its own: one that an
// instruction made, written as it lies, returned once. Where there is none, a
// `to` copies.
//
// Stands behind cse, which would undo it, and before form_loops.h, for which a
// write-back then is only a store of a computed value: what goes out never
// reads an external that another write-back changes.
// Tested by: tests/compiler/passes/passes_test.cpp,
// tests/filetests/ir/pass_copy_out.ir Source: copies before leaving SSA, Briggs
// et al., "Practical Improvements to the Construction and Destruction of SSA
// Form", 1998 (the swap problem).
#pragma once

#include "compiler/ir/ir.h"

namespace tjit {

ir::Function CopyOut(const ir::Function& function);

}  // namespace tjit

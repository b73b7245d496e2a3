// Computes at compile time what does not depend on any input: an op over
// constants becomes a `full`, and a `full` that an op reads becomes a scalar
// of that op, so that no memory is filled for it.
//
// Stands first: the constants are those of the program's own scalars, and the
// other passes see fewer instructions. What it computes is what Interpret()
// computes, by calling it; functions whose bits come from the process's own
// libraries (Hooks::math: exp, sqrt, fmod, ...) are not folded.
// Tested by: tests/compiler/passes/passes_test.cpp,
// tests/filetests/ir/pass_fold.ir
// Source: Cranelift (constant folding by evaluating the op itself).
#pragma once

#include "compiler/ir/ir.h"

namespace tjit {

ir::Function Fold(const ir::Function& function);

}  // namespace tjit

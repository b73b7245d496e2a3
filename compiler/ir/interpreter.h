// Runs a function over plain memory, op by op: the oracle of the compiler.
//
// How: every value gets memory of its own; an op gathers its operands through
// their accesses into rows of the compute type, computes element by element
// (the eval_ files) and rounds to the element type when it
// stores. Write-backs and returned values are written at the end. Slow and
// plain; nothing is shared with generated code but ops.def.
//
// Contract: arithmetic ops have eager's bits (but for the exceptions that
// ops.def lists). Math functions have the bits of
// std:: or of the math hook. Reductions and row ops add in double, in
// row-major order, but for the rows hook: eager's own order is the library's,
// so compare exactly only what is exact. NaNs are NaNs, of no certain bits.
// Tested by: tests/compiler/ir/ir_interpreter_test.cpp,
// tests/filetests/ir/run_*,
// tests/runtime/against_eager/ir_against_eager_test.cpp
#pragma once

#include <string>

#include "compiler/ir/ir.h"
#include "compiler/ir/run_arguments.h"

namespace tjit::ir {

// Runs the function. Returns "" if it did; else what is wrong, and nothing was
// written. REQUIRES: Verify(function) is empty.
std::string Interpret(const Function& function, const RunArguments& arguments,
                      const Hooks& hooks = {});

}  // namespace tjit::ir

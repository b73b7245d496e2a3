// The rules of the IR. A violation is a bug of whoever made the function: of
// lowering, of a pass, or of a hand-written text.
//
// Values:
// (1) Externals come first; every other value is the result of exactly one
//     instruction, numbered in program order without a gap.
// (2) An operand, write-back or return names a value defined before it.
// (3) An external is flat: one dim, row-major. No other value has more than
//     kMaxIrDims dims or lies otherwise than densely: its strides are
//     row-major in some order of its dims, its offset is 0.
// (4) Sizes are valid polynomials over the symbols of the function; constant
//     sizes, strides and offsets are not negative.
// Accesses:
// (5) As many strides as sizes, at most kMaxIrDims.
// (6) An access without symbols lies within the memory of its value. (With
//     symbols the run checks it, interpreter.h.)
// Instructions:
// (7) Number and kinds of operands, dims and keepdim are those of ops.def; a
//     row op has one dim.
// (8) The dtypes follow the type rule of the op. Nothing is promoted; an
//     integer op takes no f64 scalar.
// (9) The sizes follow the shape rule of the op; nothing is broadcast. An
//     update's result lies as the value that it updates.
// (10) Only a call has a callee, a step >= 0, more or fewer than one result,
//      or operands marked as written; each of these has one result, the last
//      ones in order, of the value's own type: its new content.
// (11) A scalar operand is a constant or a declared argument of its type.
// End:
// (12) A write-back goes to an external, from a value of its dtype, with equal
//      sizes.
// (13) At most kMaxInstructions instructions.
// Not checked: that calls are what their callee's schema says; that an update
// or a write-back does not overlap itself (the last in row-major order wins).
// Tested by: tests/compiler/ir/ir_verifier_test.cpp,
// tests/filetests/ir/verify_*
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/ir.h"

namespace tjit::ir {

inline constexpr std::size_t kMaxInstructions = 1 << 18;

// Returns all violations, each naming value and rule: "%5 (rule 8): add ...".
// Empty if the function is sound. Total: takes any Function.
std::vector<std::string> Verify(const Function& function);

}  // namespace tjit::ir

// Iterates over fewer dims: drops dims of size 1 and merges neighbours that lie
// one behind the other in all operands, so that most loops have one dim.
//
//   %2 = mul f32[n0,8] %0[n0,8], 2.0      ->  %2 = mul f32[n0*8] %0, 2.0
//
// Stands last, behind copy_out, whose copies it flattens, and before
// form_loops.h: what shares a loop has equal sizes, so instructions that read
// each other's results as they lie change together or not at all. A value's
// memory stays what it was, element for element; only its type has fewer dims,
// also that of a returned value.
// Tested by: tests/compiler/passes/passes_test.cpp,
// tests/filetests/ir/pass_simplify_access*.ir
// Source: ATen's TensorIterator::coalesce_dimensions, over symbols and over
// several instructions at once.
#pragma once

#include "compiler/ir/ir.h"

namespace tjit {

// REQUIRES: CopyOut() has run; other functions come back unchanged where they
// write parts of values.
ir::Function SimplifyAccess(const ir::Function& function);

}  // namespace tjit

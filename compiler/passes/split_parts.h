// Computes a value where its parts are read: if only parts of it are, none
// twice, or if that costs less than storing it for them; and puts the parts of
// a concat within a concat where they end up.
//
//   %2 = exp f32[4,6] %0[4,6]              %2 = exp f32[4,1] %0[4,1](6,1)+5
//   %3 = full f32[4,6] 0                   %3 = exp f32[4,5] %0[4,5](6,1)
//   %4 = update f32[4,6] %3[4,1](6,1),     %4 = full f32[4,6] 0
//            %2[4,1](6,1)+5           ->   %5 = update f32[4,6] %4[4,1](6,1),
//            %2
//   %5 = update f32[4,6] %4[4,5](6,1)+1,   %6 = update f32[4,6] %5[4,5](6,1)+1,
//            %2[4,5](6,1)                             %3
//
// An op whose bits depend on the place of an element stays whole.
//
// What produces a rolled, joined or chunked value then fuses with what becomes
// of its parts, and the value itself has no memory.
//
// Computed again are quick values alone: up to three additions, products and
// the like of up to two externals, which nobody writes. Their readers load an
// external instead of the value, so no byte more, and its store goes. A value
// that is returned or written has memory anyway, and stays.
//
// Stands behind peephole, which forwards reads to the parts of concats, and
// before cse and order_dims: parts are seen as boxes, as long as dims are those
// of the program.
// Tested by: tests/compiler/passes/passes_test.cpp,
// tests/filetests/ir/pass_split_parts*.ir
// Source: rematerialization, as XLA's instruction fusion duplicates cheap
// producers.
#pragma once

#include "compiler/ir/ir.h"

namespace tjit {

ir::Function SplitParts(const ir::Function& function);

}  // namespace tjit

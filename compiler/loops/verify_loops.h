// The rules of a plan. A violation is a bug of FormLoops().
//
// Instructions:
// (1) Every instruction is in exactly one loop, in ascending order. A reduce or
//     update op is the last of its loop, which has its kind; an update is
//     alone. All others are pointwise, over the sizes of the loop. In a slabs
//     loop there are any number of row ops along its one dim. In a rows loop
//     there are any number of reduce and row ops along the last dim, and
//     pointwise instructions over the sizes without that dim as well; in a
//     columns loop, which is in order, any number of reductions of columns, in
//     a whole loop, which is too, of those of all elements.
// (2) An operand that the same loop makes is made before it and read as it lies
//     (not by an update), or in a rows loop with stride 0 along the row. Any
//     other has a home that an earlier loop filled, or is external.
//     Concats (concats.h), and what they replace all of, are in no loop; a
//     concat is there when the last of its parts has been stored.
// Memory:
// (3) The home of an external is its memory; of a value in other memory, some
//     store puts it there, as it lies. What no one stores has no home. Each
//     scratch memory belongs to one value, or to a concat and its parts.
// (4) A store is of a value that its loop makes, or (loops without
//     instructions) of one that an earlier loop put into its home; its sizes
//     are those of the value, and of the loop if that is pointwise.
// (5) A returned value is stored once into its memory as it lies, a concat part
//     by part, once each, behind what fills it; each
//     write-back is one store to where it goes; there are no other stores to
//     returned values and externals.
// Order (accesses that are not proved disjoint count as overlapping):
// (6) Nobody reads elements of an external, as the external or as a value that
//     has its home there, behind a store that replaces them.
// (7) Overlapping stores to an external come in the order of the write-backs.
// (8) Iterations are independent: in a loop that is not `in_order` a store is
//     injective; what a loop loads from the memory that it stores to, and two
//     stores to one memory, are the same element in the same iteration
//     (pointwise, rows and slabs loops) or disjoint. An update's result has
//     memory of its own.
// Debug builds, and others with TJIT_VERIFY=1, hold each plan against them
// before code is made of it (llvm/api.cpp).
// Tested by: tests/compiler/loops/form_loops_test.cpp,
// tests/compiler/llvm/llvm_errors_test.cpp
#pragma once

#include <string>
#include <vector>

#include "compiler/loops/form_loops.h"

namespace tjit {

// Returns all violations: "loop 2 (rule 6): ...". REQUIRES: Verify(function)
// is empty and CopyOut() has run. Total in the plan.
std::vector<std::string> VerifyLoops(const ir::Function& function,
                                     const LoopPlan& plan);

}  // namespace tjit

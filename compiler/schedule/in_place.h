// Returned values that may lie where an external lies that nobody needs behind
// the kernel: all that the kernel reads of the external it reads before the
// element there is replaced.
//
// Note [Over operands]. So it is in loops before the one that stores, and in
// that loop where it loads the very element that it stores, no later than it
// does: in a phase (Note [Tiles] in phases.h) that comes behind the store, or
// by an array function behind the vector code of the store's phase, it would
// be too late. Each row of an access `is_of_row` is read once, when nobody
// knows: such accesses do not take part.
//
// Tested by: tests/compiler/schedule/llvm_in_place_test.cpp
#pragma once

#include <vector>

#include "compiler/abi/kernel_abi.h"
#include "compiler/schedule/loop_code.h"

namespace tjit::llvm_backend {

// Of a kernel that runs `codes` in this order. Any one of the pairs may be
// used, and several that have no external and no returned value in common.
std::vector<TjitInPlace> FindInPlace(const ir::Function& f,
                                     const std::vector<LoopCode>& codes);

}  // namespace tjit::llvm_backend

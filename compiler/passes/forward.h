// Where else the elements of an operand can be read: behind copies, and beside
// or within what an update has replaced.
//
//   %2 = to f32[n0,8] %0[n0,8](1,n0)       %2 whole      -> %0[n0,8](1,n0)
//   %3 = to f32[n0*8] %1[n0*8]+4           %3[n0](8)+1   -> %1[n0](8)+5
//   %4 = update f32[n0*2] %0[n0]+n0, %5    %4[n0]+n0     -> %5
//                                          %4[n0]        -> %0[n0]
// Part of peephole.h, and tested with it.
#pragma once

#include <vector>

#include "compiler/ir/ir.h"

namespace tjit {

// The same elements, read as far from the end of `function` as can be proved.
// `definitions`: by value, the index of the instruction; -1 for externals.
// REQUIRES: the operand is a tensor.
ir::Operand Forward(const ir::Function& function,
                    const std::vector<int>& definitions, ir::Operand operand);

// Write-backs that do what `write` does, in order: one for each update if it
// writes an external's own content, partly updated. `is_first`: no earlier one
// writes to that external.
std::vector<ir::WriteBack> ForwardWrite(const ir::Function& function,
                                        const std::vector<int>& definitions,
                                        const ir::WriteBack& write,
                                        bool is_first);

}  // namespace tjit

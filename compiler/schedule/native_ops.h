// Which ops are generated as vector instructions.
#pragma once

#include "compiler/ir/op.h"

namespace tjit::llvm_backend {

// False of functions (Note [Functions] in math_table.h) and of reductions, row
// ops and calls.
bool IsNative(ir::Op op);

}  // namespace tjit::llvm_backend

// The pointwise ops on registers: one function from operands to the result,
// with the expressions of eval_pointwise.h.
//
// Nothing is contracted but what ops.def calls an fma, and nothing is
// reassociated: the builder has no fast-math flags.
// Tested by: tests/compiler/llvm/llvm_kernel_test.cpp
#pragma once

#include "compiler/llvm/lane_types.h"
#include "compiler/schedule/native_ops.h"

namespace tjit::llvm_backend {

// Computes for element type `dtype`. x: registers of it (where: the condition
// first). The result is a register of it or, of comparisons, of bool; it is
// rounded. REQUIRES: IsNative(op).
llvm::Value* EmitOp(const LaneTypes& types, ir::Op op, ir::DType dtype,
                    llvm::Value* const* x);

}  // namespace tjit::llvm_backend

// The square root as runtime/sqrt_step.h computes it, on registers: the same
// expression, as the library that eager calls has it.
// Tested by: tests/compiler/llvm_math_test.cpp,
// tests/runtime/math_probe_test.cpp
#pragma once

#include "compiler/llvm/lane_types.h"

namespace tjit::llvm_backend {

// x: <16 x float> or <8 x double>. REQUIRES: the target has AVX-512F.
llvm::Value* EmitSqrtStep(Builder& b, llvm::Value* x);

}  // namespace tjit::llvm_backend

// Square roots as compiler/functions/sqrt_exact.h computes them, on registers: the same
// expressions, as the library that eager calls has them.
// Tested by: tests/compiler/llvm/llvm_sqrt_test.cpp,
// tests/bits/bit_exact_test.cpp
#pragma once

#include <cstdint>

#include "compiler/llvm/lane_types.h"

namespace tjit::llvm_backend {

// x: a vector of the kind's lanes. REQUIRES: IsSqrtInCode(kind), and of the
// target AVX-512F, for kTjitSqrtTwoStepsF32x8 AVX.
llvm::Value* EmitSqrt(Builder& b, std::int32_t kind, llvm::Value* x);

}  // namespace tjit::llvm_backend

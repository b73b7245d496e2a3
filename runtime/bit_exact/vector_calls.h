// Functions of one vector in a register, SLEEF's and the like, over arrays.
// Thread: any.
// Tested by: tests/runtime/bit_exact/math_probe_test.cpp
#pragma once

#include <cstdint>

#include "compiler/abi/kernel_abi.h"

namespace tjit::runtime {

// n elements; the last vector is filled up with zeros. in and out may be the
// same array. REQUIRES: `kind` is kTjitMathF32x8, F32x16, F64x4 or F64x8, and
// the processor has such vectors.
void CallVectors(TjitMathKind kind, void* function, const void* in, void* out,
                 std::int64_t n);

}  // namespace tjit::runtime

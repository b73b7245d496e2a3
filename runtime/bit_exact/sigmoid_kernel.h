// Eager's kernel of sigmoid for tiles, of f32 by
// compiler/functions/sigmoid_exact.h.
// Thread: any.
// Tested by: tests/runtime/bit_exact/sigmoid_exact_test.cpp
#pragma once

#include <ATen/TensorIterator.h>

#include "runtime/bit_exact/verdicts.h"

namespace tjit::runtime {

// For tiles (position_tiles.h): whole blocks of floats are computed by
// SigmoidExact(), in the usual arithmetic. Everything else is eager's.
// REQUIRES: SigmoidExactHasBitsOfEager() has returned true.
void QuickSigmoidKernel(at::TensorIterator& it, const double* s);

// False where this processor has not what SigmoidExact() needs, or a bit
// differs.
bool SigmoidExactHasBitsOfEager(Check check);

}  // namespace tjit::runtime

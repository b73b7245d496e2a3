// Eager's kernel of pow with a number for tiles, and a faster one for f32 and
// the exponents of compiler/functions/pow_exact.h.
// Thread: any.
// Tested by: tests/runtime/bit_exact/pow_exact_test.cpp
#pragma once

#include <ATen/TensorIterator.h>

#include "runtime/bit_exact/verdicts.h"

namespace tjit::runtime {

// s[0]: the exponent.
void EagerPowKernel(at::TensorIterator& it, const double* s);

// The same for tiles (position_tiles.h): whole blocks of floats are computed by
// PowExact(), in the usual arithmetic. Everything else is eager's.
// REQUIRES: PowExactHasBitsOfEager() has returned true.
void QuickPowKernel(at::TensorIterator& it, const double* s);

// False where this processor has not what PowExact() needs, or a bit differs.
bool PowExactHasBitsOfEager(Check check);

// SLEEF's function in libtorch, for PowExact(); null if there is none.
void* PowfOfLibtorch();

}  // namespace tjit::runtime

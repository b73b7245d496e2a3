// sigmoid of f32 as eager's vectors compute it, without a call for each of
// them and an iterator for each tile: 1 / (1 + exp(-x)), exp by SLEEF's formula
// for 1 ULP (expf_u10), with the same roundings.
//
// exp(y), of y = n * log(2) + r: 2^n * (1 + (r + r^2 * polynomial of r)).
// Invariants: (1) No torch header. (2) x and out may be the same array.
// (3) The caller compares with eager first.
// Thread: any.
// Source: sleef.org, sleefsimdsp.c (xexpf)
// Tested by: tests/runtime/bit_exact/sigmoid_exact_test.cpp, for all numbers
// too
#pragma once

#include <cstdint>

namespace tjit {

// True if this processor has what SigmoidExact() needs (AVX-512).
bool HasSigmoidExact();

// REQUIRES: HasSigmoidExact(), the usual arithmetic (MXCSR).
void SigmoidExact(std::int64_t n, const float* x, float* out);

}  // namespace tjit

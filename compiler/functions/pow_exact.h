// Powers of f32 with small whole exponents, x^4 and the like, with the bits of
// SLEEF's general powf, which is what eager's vectors call.
//
// How: x^n is computed to some 45 bits, in pairs of floats, and rounded. That
// is what powf returns too, unless x^n lies so near the middle of two floats
// that powf's own error decides between them. How near that is has been
// measured for all 2^32 numbers; it depends on the fraction of x^n alone, as
// powf's last step, the exponential, makes most of its error. The 3.7 % of
// numbers that lie so near, and those whose powers are 0, infinite or of
// extreme size, are marked, and powf itself is called for them.
// Invariants: (1) No torch header. (2) x and out may be the same array.
// Thread: any.
// Tested by: tests/runtime/bit_exact/pow_exact_test.cpp, for all numbers too
#pragma once

#include <cstdint>

namespace tjit {

// The exponents that were measured.
inline constexpr int kPowExponents[] = {4, 5, 6, 7, 8, -3, -4, -5, -6};

bool IsPowExponent(double exponent);

// True if this processor has what PowExact() needs (AVX-512).
bool HasPowExact();

// out = x^exponent. Returns the count of those that powf was called for.
// REQUIRES: IsPowExponent(exponent), HasPowExact(), the usual arithmetic
// (MXCSR); `powf` is Sleef_powf16_u10.
std::int64_t PowExact(std::int64_t n, const float* x, int exponent, void* powf,
                      float* out);

}  // namespace tjit

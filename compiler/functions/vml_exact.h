// tanh, exp and log of f32 with the bits of MKL's VML, which is what eager
// calls, for processors on which VML takes long (AMD's: 2.3, 0.7 and 0.9 ns an
// element).
//
// How: tanh is computed to 2^-30, with a polynomial around one of 29 centres
// whose first terms are pairs of floats. VML computes to some 2^-33 and rounds.
// Both round to the same float, unless the result lies so near the middle of
// two that the errors decide between them. How near that is has been measured
// for all 2^32 numbers; twice as near are 1.5 % of ordinary numbers. They are
// gathered, and VML itself is called for them. exp and log are VML's formulas,
// found by comparing bits from outside: log's coefficients were fitted to the
// mean error in windows of numbers from 2/3 to 4/3, then searched, until all
// results were the same. What is no normal number, negative (log) or nearly
// infinite (exp) is VML's.
// Invariants: (1) No torch header. (2) x and out may be the same array.
// (3) Other processors' VML computes otherwise: the caller compares first.
// Thread: any.
// Tested by: tests/runtime/bit_exact/vml_exact_test.cpp, for all numbers too
#pragma once

#include <cstdint>

namespace tjit {

// VML's functions of one operand.
using VmlF32 = void (*)(int n, const float* x, float* out, std::int64_t mode);

// True if this processor has what the functions below need (AVX-512).
bool HasVmlExact();

// out = tanh(x), exp(x), log(x). They return the count of those that `vml`,
// vmsTanh, vmsExp and vmsLn, was called for.
// REQUIRES: HasVmlExact(), the usual arithmetic (MXCSR).
std::int64_t TanhExact(std::int64_t n, const float* x, VmlF32 vml,
                       std::int64_t mode, float* out);
std::int64_t ExpExact(std::int64_t n, const float* x, VmlF32 vml,
                      std::int64_t mode, float* out);
std::int64_t LogExact(std::int64_t n, const float* x, VmlF32 vml,
                      std::int64_t mode, float* out);

}  // namespace tjit

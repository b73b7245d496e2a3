// Square roots as MKL's VML computes them.
//
// On Intel's processors with AVX-512, one step: the processor's estimate of 1 /
// sqrt(x), good to 14 bits, and one step of Newton (f32), or one of Goldschmidt
// before it (f64). Not the exact root: of the floats 0.6 % differ by a bit.
//
//   y = estimate(x); g = x * y; h = y / 2
//   f64 only: r = 1/2 - g * h; g += g * r; h += h * r
//   sqrt = g + (x - g * g) * h            every product and sum one fma
//
// Small x are scaled by a power of four, so that x - g * g is exact; the root
// of a negative x is NaN without a sign.
//
// On AMD's, of f32, two steps: the estimate of AVX, good to 12 bits, a step of
// Goldschmidt and one of Newton, each product and sum rounded. Of the floats
// 17 % are not the nearest. What is no normal float, or above 0x1.ffep127, has
// the exact root; that of a negative x is NaN without a sign.
//
//   y = estimate(x); g = x * y; h = y / 2; r = 1/2 - g * h
//   g += g * r; h += h * r; sqrt = g + (x - g * g) * h
//
// Found by comparing bits from outside: equal for all 2^32 floats (two steps:
// on Zen 5), and for 838 million doubles of all exponents. Kernels have the
// same expressions inline (compiler/llvm/sqrt_step.h) where MathProbe finds
// that they are eager's. Source: Markstein, Computation of elementary functions
// on the IBM RISC System/6000 processor (1990); Goldschmidt (1964). Thread:
// any. Tested by: tests/runtime/bit_exact/math_probe_test.cpp
#pragma once

#include <cstdint>

namespace tjit::runtime {

// n elements, as VML's functions are called; `mode` means nothing.
// REQUIRES: AVX-512F.
void SqrtStepF32(int n, const float* x, float* out, std::int64_t mode);
void SqrtStepF64(int n, const double* x, double* out, std::int64_t mode);

// REQUIRES: AVX.
void SqrtTwoStepsF32(int n, const float* x, float* out, std::int64_t mode);

}  // namespace tjit::runtime

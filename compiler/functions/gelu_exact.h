// Gelu by erf and its gradient as oneDNN computes them, to which eager hands
// contiguous f32 and bf16 tensors: every element by one formula, wherever it
// lies. For kernels, as position-dependent functions (kernel_abi.h) that need
// no place.
//
// How: by formula 7.1.26 of Abramowitz and Stegun, with the roundings of
// oneDNN's code for processors with FMA; the forward for AVX-512 by polynomials
// (gelu_minimax.cpp). Which of the two oneDNN takes, is for the probe to see.
// The forward of bf16 is tried against all there is
// (runtime/bit_exact/half_formulas.h).
// Invariants: (1) No torch header. (2) The arrays of an op may be the same one.
// Thread: any.
// Tested by: tests/runtime/bit_exact/position_dependent_test.cpp
// Source: oneDNN 3.12, src/cpu/x64/injectors (order of the operations); the
// polynomial of exp is also in ATen/cpu/vec/vec512/vec512_float.h (exp_u20).
#pragma once

#include <cstdint>

namespace tjit {

// What TjitPositionFn has behind `out` is not used.
#define TJIT_GELU_FUNCTION(name)                                           \
  void name(std::int64_t n, const void* a, [[maybe_unused]] const void* b, \
            void* out, [[maybe_unused]] std::int64_t first,                \
            [[maybe_unused]] std::int64_t total, double, double, double)

TJIT_GELU_FUNCTION(GeluF32);
// REQUIRES: HasGeluMinimax().
TJIT_GELU_FUNCTION(GeluMinimaxF32);
// REQUIRES: HasGeluMinimaxBF16().
TJIT_GELU_FUNCTION(GeluMinimaxBF16);
TJIT_GELU_FUNCTION(GeluBF16);
// a: the gradient, b: the input.
TJIT_GELU_FUNCTION(GeluBackwardF32);
TJIT_GELU_FUNCTION(GeluBackwardBF16);
TJIT_GELU_FUNCTION(GeluBackwardF16);

// True if this processor has what the formulas need.
bool HasGeluFormulas();
bool HasGeluMinimax();
bool HasGeluMinimaxBF16();

// To the nearest bf16, denormal ones too. REQUIRES: HasGeluFormulas().
void RoundToBF16(std::int64_t n, float* x);

}  // namespace tjit

// What the sources that are compiled for one instruction set have. Includes
// nothing, as no inline function may be compiled for these processors only.
// Tested by: tests/runtime/bit_exact/fast_math_test.cpp
#pragma once

namespace tjit {

// As FastFormula() gives them.
struct FastFormulas {
  void *exp, *expm1, *tanh, *sigmoid, *silu;
};
// REQUIRES: the processor has AVX2 and FMA.
FastFormulas Avx2Formulas();
// REQUIRES: the processor has AVX-512F.
FastFormulas Avx512Formulas();

}  // namespace tjit

// What TJIT_FAST_MATH=1 computes functions with, instead of what has eager's
// bits, and how far that is from the exact result.
//
// How: eager's functions are chosen for accuracy (MKL's VML in its high one) or
// for eager's order of things (sigmoid in tiles). Here each is a function of
// one vector in registers, in the midst of the loop: SLEEF's with a larger
// bound, a formula of fast_math/formulas.h, or an instruction. Only functions
// that are faster so than with eager's bits are in the table. It feeds the
// engine (runtime/bit_exact/fast_math_functions.h), docs/fast-math.md and the tests.
//
// Bounds are in units of the last place of the exact result (where that is
// denormal: of the smallest denormal number), over all f32 numbers. Zeros,
// infinities and NaN give what eager gives.
// Tested by: tests/runtime/bit_exact/fast_math_test.cpp
#pragma once

#include "compiler/ir/op.h"

namespace tjit {

enum class FastFrom {
  kFormula,  // fast_math/formulas.h; bound: measured over all f32 numbers
  kSleef,    // libtorch's; bound: SLEEF's documentation
  // The processor's, where eager's bits take a call of a library.
  kInstruction,
};

struct FastFunction {
  ir::Op op;
  FastFrom from;
  double bound_ulp;
  // Of SLEEF: Sleef_ + name + (f8 or f16) + accuracy.
  const char* sleef = "";
  const char* accuracy = "";
};

// Of f32; what is not here is computed as always.
inline constexpr FastFunction kFastFunctions[] = {
    {ir::Op::kExp, FastFrom::kFormula, 1.1},
    {ir::Op::kExpm1, FastFrom::kFormula, 1.6},
    {ir::Op::kTanh, FastFrom::kFormula, 2.6},
    {ir::Op::kSigmoid, FastFrom::kFormula, 2.5},
    {ir::Op::kSilu, FastFrom::kFormula, 3.3},
    {ir::Op::kSqrt, FastFrom::kInstruction, 0.5},
    {ir::Op::kLog, FastFrom::kSleef, 3.5, "log", "_u35"},
    {ir::Op::kLog2, FastFrom::kSleef, 3.5, "log2", "_u35"},
    {ir::Op::kLog10, FastFrom::kSleef, 1, "log10", "_u10"},
    {ir::Op::kSin, FastFrom::kSleef, 3.5, "sin", "_u35"},
    {ir::Op::kCos, FastFrom::kSleef, 3.5, "cos", "_u35"},
    {ir::Op::kTan, FastFrom::kSleef, 3.5, "tan", "_u35"},
    {ir::Op::kAsin, FastFrom::kSleef, 3.5, "asin", "_u35"},
    {ir::Op::kAcos, FastFrom::kSleef, 3.5, "acos", "_u35"},
    {ir::Op::kAtan, FastFrom::kSleef, 3.5, "atan", "_u35"},
};

// A formula: a function of one vector of so many floats, 16 (for AVX-512) or 8
// (AVX2 with FMA), that returns another; null if the op has none.
// REQUIRES: the processor has those instructions.
void* FastFormula(ir::Op op, int lanes);

}  // namespace tjit

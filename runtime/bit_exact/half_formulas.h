// Formulas for functions of one bf16 number, vectors at a time: what a table
// (half_tables.h) takes a load for each number for.
//
// How: a formula for f32, rounded to bf16. It need not be eager's: whether it
// gives eager's bits is tried for all 65,536 numbers. Gelu's is oneDNN's own
// (compiler/functions/gelu_exact.h), with the rounding of a processor that has an
// instruction for it. Those of fast_math.h are off by some units in the last
// place of an f32, which bf16 rounds away but for numbers next to the middle
// of two; there are few numbers, and mostly none lies there.
// Thread: any.
// Tested by: tests/runtime/bit_exact/math_probe_test.cpp
#pragma once

#include <cstdint>

#include "compiler/functions/math_functions.h"

namespace tjit::runtime {

// n floats that are bf16, as VML's functions get them; `out` may be `x`.
using HalfFormula = void (*)(int n, const float* x, float* out,
                             std::int64_t mode);

// One that gives `results` of all 65,536 numbers, by their bits; any NaN is any
// other. Null if none does, or this processor has not what they need.
// REQUIRES: the thread rounds to the nearest and flushes nothing.
HalfFormula FindBF16Formula(ir::Op op, const std::uint16_t* results);

}  // namespace tjit::runtime

// Functions of one bf16 or f16 number for kernels: eager's result for each of
// the 65,536 numbers there are, so that the bits are right whatever eager
// computes them with.
//
// How: eager fills a table over all of them, and once more in short parts; if
// the two agree, no bits depend on the place of an element. 128 KiB for an op
// that some kernel has; the numbers that occur take a few KiB of them. Where a
// formula gives the whole table (half_formulas.h), it runs instead. On a
// thread that rounds otherwise than to nearest, or flushes denormals (MXCSR),
// the function runs eager's kernel instead.
// Thread: any, also while kernels run.
// Tested by: tests/runtime/bit_exact/math_probe_test.cpp
#pragma once

#include <optional>

#include "compiler/functions/math_functions.h"

namespace tjit::runtime {

// As VML's functions, over floats that are halves.
using HalfTableFn = void (*)(int n, const float* x, float* out,
                             std::int64_t mode);

// Of the kind for halves of the type. Nothing if the op has no table, or its
// bits depend on the place. Gelu: as eager computes tensors of more than one
// element.
// REQUIRES: not called inside a kernel; the thread takes no part in recording.
std::optional<TjitMath> FindHalfTable(ir::Op op, ir::DType dtype);

}  // namespace tjit::runtime

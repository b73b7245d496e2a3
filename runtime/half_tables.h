// Unary ops of bf16 for kernels: eager's result for each of the 65,536 numbers
// there are, so that the bits are right whatever eager computes them with.
//
// How: eager fills a table over all of them, and once more in short parts; if
// the two agree, no bits depend on the place of an element. 128 KiB for an op
// that some kernel has; the numbers that occur take a few KiB of them.
// Thread: any, also while kernels run.
// Tested by: tests/runtime/math_probe_test.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "compiler/math_functions.h"

namespace tjit::runtime {

constexpr int kHalfTables = 16;

// The function of table number `table`, which is this op's: of the array kind
// for bf16. Nothing if eager's bits depend on the place.
// REQUIRES: not called inside a kernel; the thread takes no part in recording.
std::optional<TjitMath> FindHalfTable(int table, ir::Op op,
                                      at::Tensor (*eager)(const at::Tensor& x));

// The table of an op, 65,536 results by the bits of the input.
void FillHalfTable(at::Tensor (*eager)(const at::Tensor& x),
                   std::uint16_t* results);

}  // namespace tjit::runtime

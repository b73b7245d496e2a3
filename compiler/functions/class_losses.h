// Functions for losses over classes: of rows, the element that an index names
// and which element it is; and sums of all elements in the order of nll_loss.
// Entries for the table of math functions (kernel_abi.h). Eager's order is the
// same on all processors, so nothing of it is probed.
// Thread: any.
// Tested by: tests/compiler/functions/class_functions_test.cpp,
// tests/runtime/against_eager/lower_nll_loss_test.cpp
#pragma once

#include "compiler/abi/kernel_abi.h"
#include "compiler/ir/op.h"

namespace tjit {

// is_index, pick and sum_in_levels of f32 and f64; null of others. Lives as
// long as the process.
const TjitMath* ClassFunction(ir::Op op, ir::DType dtype);

}  // namespace tjit

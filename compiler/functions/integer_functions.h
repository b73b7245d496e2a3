// Reductions of integers and booleans over rows, columns and all elements:
// entries for the table of math functions (kernel_abi.h). Any order gives the
// same bits, sums that overflow included, so nothing of eager is probed.
// Thread: any.
// Tested by: tests/compiler/functions/integer_functions_test.cpp,
// tests/runtime/tier2/tier2_rows_test.cpp
#pragma once

#include "compiler/abi/kernel_abi.h"
#include "compiler/ir/axis.h"
#include "compiler/ir/op.h"

namespace tjit {

// sum, amax and amin of i64, any and all of booleans; null of others, and of
// kStrided. Lives as
// long as the process.
const TjitMath* IntegerFunction(ir::Op op, ir::DType dtype, ir::Axis axis);

}  // namespace tjit

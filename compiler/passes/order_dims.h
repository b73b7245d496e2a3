// Iterates in the order of memory: where all results of instructions that hand
// over elements lie in one other order than row-major (a transposed tensor,
// channels last), their dims change places.
//
//   %1 = relu f32[n1,n0](1,n1) %0[n1,n0](1,n1)  ->  %1 = relu f32[n0,n1] %0
//
// Stands before simplify_access, which merges dims only in row-major order.
// Memory stays as it was; types change as there.
// Tested by: tests/compiler/passes/passes_test.cpp,
// tests/filetests/ir/pass_order_dims.ir
// Source: ATen's TensorIterator::reorder_dimensions.
#pragma once

#include "compiler/ir/ir.h"

namespace tjit {

// REQUIRES: as SimplifyAccess().
ir::Function OrderDims(const ir::Function& function);

}  // namespace tjit

// Which reductions and row ops of floats a row function computes with eager's
// bits (compiler/llvm/abi.h, TjitRowFn): those along the last dim.
// Part of op_rules.h; tested with it.
#pragma once

#include <vector>

#include "compiler/lower/step_lowering.h"

namespace tjit::lower {

// Tensor argument `arg` has rows of f32 or f64 that fit the caches, and `dims`
// are those of the rows alone. Else refuses.
bool HasRows(StepLowering& s, std::size_t arg, const std::vector<int>& dims);

// Besides, eager adds up each row of the argument on its own, from one side to
// the other: rows lie densely, and none beside another. What it does with
// several threads does not matter then, as it does not split rows that are
// short enough for HasRows(). Else refuses.
bool AddsRowByRow(StepLowering& s, std::size_t arg,
                  const std::vector<int>& dims);

}  // namespace tjit::lower

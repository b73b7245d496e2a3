// The pointwise ops of compiler/ir/ops.def and what eager calls them.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <vector>

namespace tjit::ir {

using Tensors = std::vector<at::Tensor>;

struct Case {
  const char* op;
  // %0 to %2 are tensors of the dtype, %3 one of bool; S a scalar.
  const char* operands;
  std::function<at::Tensor(const Tensors&, const at::Scalar&)> eager;
};

// Those that must have eager's bits.
const std::vector<Case>& BitExactCases();

// Through std::, so only nearly: eager has its own exp, a sqrt of doubles that
// does not always round correctly, an fmod that gives up on large quotients.
const std::vector<Case>& FunctionCases();

}  // namespace tjit::ir

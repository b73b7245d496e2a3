// Compares a position-dependent function with eager before it is used: tiles of
// whole, odd and few elements, over lengths with and without a remainder, at
// numbers for which the two formulas differ.
// Tested by: tests/runtime/bit_exact/position_dependent_test.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "compiler/abi/kernel_abi.h"
#include "runtime/bit_exact/verdicts.h"

namespace tjit::runtime {

// The op of one or two tensors (else `b` is not looked at) and three scalars.
using PositionEager = at::Tensor (*)(const at::Tensor& a, const at::Tensor& b,
                                     const double* s);

// False if a bit differs, of numbers; *difference (or null) gets where. A spot
// check takes two lengths.
bool TilesHaveBitsOfEager(TjitPositionFn function, PositionEager eager,
                          bool is_binary, at::ScalarType type,
                          Check check = Check::kAll,
                          std::string* difference = nullptr);

}  // namespace tjit::runtime

// What several loops have in common: code without their sizes and places.
//
// Note [Shared loops]. An optimizer's step is the same loop for every
// parameter, and a network repeats its layers. So the generated function of a
// loop knows no size, stride, offset, index of memory or of a scalar argument:
// it takes them from an array of numbers. Only what decides the code stays:
// strides and offsets of 0, strides of 1, and narrow rows (narrow_rows.h).
// Loops with one signature share
// one function, in a kernel and between kernels.
//
//   numbers of a loop: memory indices, scalar indices, sizes
//
// Tested by: tests/compiler/llvm_share_test.cpp
#pragma once

#include <string>
#include <vector>

#include "compiler/llvm/loop_code.h"

namespace tjit::llvm_backend {

struct SharedLoop {
  // Memory and scalar arguments are indices into the lists below; a size is
  // Symbol(i), element i of `sizes`.
  LoopCode code;
  std::vector<int> memory;
  std::vector<int> scalars;
  ir::Sizes sizes;
  std::vector<int> functions;  // of the math table, by address not shared
  // All that decides the code but the target; the same in every process.
  std::string signature;

  int number_count() const {
    return static_cast<int>(memory.size() + scalars.size() + sizes.size());
  }
};

// "" or why not: too many sizes.
std::string ShareLoop(const LoopCode& code, const MathTable& math,
                      SharedLoop* shared);

}  // namespace tjit::llvm_backend

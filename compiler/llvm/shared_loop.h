// What several loops have in common: code without their sizes and places.
//
// Note [Shared loops]. An optimizer's step is the same loop for every
// parameter, and a network repeats its layers. So the generated function of a
// loop knows no size, stride, offset, index of memory or of a scalar argument:
// it takes them from an array of numbers. Nor does it know the constants of its
// arithmetic (an optimizer's differ from step to step), or whether they are
// constants: a scalar's number says where its bits are. Only what decides the
// code stays: strides and offsets of 0, strides of 1, narrow rows
// (narrow_rows.h), and constants that make other instructions (0, powers of two,
// integers). Loops with one signature share one function, in a kernel and
// between kernels.
//
//   numbers of a loop: memory indices, places of scalars, sizes, constants
//   place of a scalar: bytes from the kernel's scalars, or ~bytes from the
//                      loop's numbers
//
// Tested by: tests/compiler/llvm_share_test.cpp
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/llvm/loop_code.h"

namespace tjit::llvm_backend {

struct SharedLoop {
  // Memory and scalars' arguments are indices into the lists below; a size is
  // Symbol(i), element i of `sizes`.
  LoopCode code;
  std::vector<int> memory;
  std::vector<ir::Scalar> scalars;  // arguments of the kernel or constants
  ir::Sizes sizes;
  std::vector<int> functions;  // of the math table, by address not shared
  // All that decides the code but the target; the same in every process.
  std::string signature;

  int number_count() const;
  // Fills the numbers but for the sizes, which are `evaluated`.
  void FillNumbers(const std::vector<std::int64_t>& evaluated,
                   std::int64_t* numbers) const;
};

// "" or why not: too many sizes.
std::string ShareLoop(const LoopCode& code, const MathTable& math,
                      SharedLoop* shared);

}  // namespace tjit::llvm_backend

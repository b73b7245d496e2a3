// What several loops have in common: code without their sizes and places.
//
// Note [Shared loops]. An optimizer's step is the same loop for every
// parameter, and a network repeats its layers. So the generated function of a
// loop knows no size, stride, offset, index of memory or of a scalar argument:
// it takes them from an array of numbers (bind_loop.h). Nor does it know the
// constants of its arithmetic (an optimizer's differ from step to step), or
// whether they are constants: a scalar's number says where its bits are. Only
// what decides the code stays: strides of 0 and 1, narrow rows (narrow_rows.h),
// and constants that make other instructions (0, powers of two, integers).
// Loops with one signature share one function, in a kernel and between kernels.
//
//   numbers of a loop: memory (indices and bytes to add), places of scalars,
//                      sizes, constants
//   place of a scalar: bytes from the kernel's scalars, or ~bytes from the
//                      loop's numbers
//
// Tested by: tests/compiler/llvm/llvm_share_test.cpp
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/schedule/loop_code.h"

namespace tjit::llvm_backend {

struct SharedLoop {
  struct Memory {
    int memory;  // of the kernel
    ir::Size offset;
    int item_bytes;
  };

  // Memory and scalars' arguments are indices into the lists below, offsets are
  // 0; a size is Symbol(i), element i of `sizes`.
  LoopCode code;
  std::vector<Memory> memory;
  std::vector<ir::Scalar> scalars;  // arguments of the kernel or constants
  ir::Sizes sizes;
  std::vector<int> functions;  // of the math table, by address not shared
  // All that decides the code but the target; the same in every process.
  std::string signature;

  int number_count() const;
  using Evaluate = std::function<std::int64_t(const ir::Size&)>;
  void FillNumbers(const Evaluate& evaluate, std::int64_t* numbers) const;
};

// "" or why not: too many sizes.
std::string ShareLoop(const LoopCode& code, const MathTable& math,
                      SharedLoop* shared);

}  // namespace tjit::llvm_backend

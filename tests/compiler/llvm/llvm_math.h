// A table of math functions for kernels: the interpreter's own, so that both
// have the same bits.
#pragma once

#include <vector>

#include "compiler/abi/kernel_abi.h"

namespace tjit::ir {

// All functions of ops.def: array functions of f32 and f64 for ops of one
// operand, position-dependent functions of all float types, vector
// functions of all widths for the others. Lives forever.
const std::vector<TjitMath>& ArrayAndVectorMath();
const std::vector<TjitMath>& VectorMath();

// Functions of rows and slabs in the interpreter's order, and the two above
// with them.
const std::vector<TjitMath>& RowMath();
const std::vector<TjitMath>& ArrayVectorAndRowMath();

// Calls of array and row functions since the program began, and the longest.
struct ArrayCalls {
  int count = 0;
  std::int64_t longest = 0;
  std::int64_t wrong_modes = 0;
  int row_count = 0;  // of row functions, and the most rows at once
  std::int64_t most_rows = 0;
  // What position-dependent functions and those of slabs are told. 0 if it lies
  // within all...
  std::int64_t wrong_places = 0;
  // ...and if all elements, or columns, are told as often.
  std::int64_t uneven_places = 0;
  std::int64_t most_columns = 0;  // of a slab
};
ArrayCalls& Calls();
inline constexpr std::int64_t kTestMode = 0x140102;

}  // namespace tjit::ir

// Cuts the steps of a loop at its calls of array functions.
//
// Note [Tiles]. A loop with such calls runs over tiles that fit the first-level
// cache. For each tile, phase by phase: the vector code of the phase, then its
// calls. What is computed in one phase and needed behind it lies in a buffer
// of one tile:
//
//   %2 = mul %0, 2.0        phase 0: %2 to a buffer
//   %3 = exp %2             behind phase 0, from buffer to buffer
//   %4 = add %3, %0         phase 1: %3 from its buffer, %0 loaded again
//
// Stores to externals wait for the last phase: what they replace may be loaded
// in any. A loop without array functions is one phase, without tiles.
// Tested by: tests/compiler/llvm_math_test.cpp
#pragma once

#include <map>
#include <vector>

#include "compiler/llvm/loop_code.h"

namespace tjit::llvm_backend {

struct Phases {
  int count = 1;
  std::vector<int> of_step;   // by step; of calls: behind which they run
  std::vector<int> of_store;  // by store
  // Buffers, numbered; those of accesses are filled in phase 0.
  std::vector<ir::DType> buffers;
  std::map<ir::ValueId, int> buffer_of_value;
  std::map<int, int> buffer_of_access;

  bool uses_tiles() const { return !buffers.empty(); }
};

Phases MakePhases(const LoopCode& code);

// An array function may read the access where it lies.
bool IsDirect(const LoopCode& code, int access);

}  // namespace tjit::llvm_backend

// Generates the function of one loop: the nest over its dims and, where the
// loop calls array functions, the tiles (Note [Tiles] in phases.h).
// Tested by: tests/compiler/llvm/llvm_kernel_test.cpp, llvm_math_test.cpp
#pragma once

#include <string>

#include "compiler/schedule/shared_loop.h"
#include "llvm/IR/Module.h"

namespace tjit::llvm_backend {

struct VectorTarget {
  int bytes = 64;         // of a vector register
  bool has_masks = true;  // AVX-512: the tail is a masked vector
};

void EmitLoop(const SharedLoop& loop, const MathTable& math,
              const VectorTarget& target, const std::string& name,
              llvm::Module* module);

}  // namespace tjit::llvm_backend

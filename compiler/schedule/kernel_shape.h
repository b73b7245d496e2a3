// What one run of a kernel needs, for given sizes; no LLVM.
#pragma once

#include <string>
#include <vector>

#include "compiler/abi/kernel_abi.h"
#include "compiler/schedule/loop_code.h"
#include "compiler/schedule/shared_loop.h"

namespace tjit::llvm_backend {

// Name of a generated function: of the function and the loop.
std::string LoopName(const ir::Function& f, std::size_t loop);

// A kernel as it was compiled.
struct ShapedKernel {
  const ir::Function& function;
  const LoopPlan& plan;
  const std::vector<LoopCode>& codes;
  const std::vector<SharedLoop>& shared;
  const std::vector<TjitInPlace>& in_place;
  std::int64_t block_rows = 0;  // RowBlocks()
};

// Fills the arrays of *shape. "" or which access leaves its memory.
std::string EvaluateShape(const ShapedKernel& kernel,
                          const std::int64_t* symbols, const TjitShape& shape);

}  // namespace tjit::llvm_backend

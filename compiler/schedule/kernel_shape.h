// What one run of a kernel needs, for given sizes; no LLVM.
//
// Tested by: tests/compiler/llvm/llvm_kernel_test.cpp, llvm_share_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/abi/kernel_abi.h"
#include "compiler/ir/ir.h"
#include "compiler/loops/form_loops.h"
#include "compiler/program/memory_plan.h"
#include "compiler/schedule/loop_code.h"
#include "compiler/schedule/shared_loop.h"

namespace tjit::llvm_backend {

// Name of a generated function: of the function and the loop.
std::string LoopName(const ir::Function& f, std::size_t loop);

// A compiled kernel without its instructions: what is needed to work out the
// numbers of a run from its sizes. Its function, plan and loops take several
// times as much memory, and a program with many sizes keeps hundreds of
// kernels.
class ShapedKernel {
 public:
  ShapedKernel() = default;
  // `block_rows`: RowBlocks().
  ShapedKernel(const ir::Function& function, const LoopPlan& plan,
               std::vector<LoopCode> codes, std::vector<SharedLoop> shared,
               std::vector<TjitInPlace> in_place, std::int64_t block_rows);

  // Fills the arrays of *shape. "" or which access leaves its memory.
  std::string Evaluate(const std::int64_t* symbols,
                       const TjitShape& shape) const;

  const std::vector<TjitInPlace>& in_place() const { return in_place_; }
  std::size_t scratch_count() const {
    return memories_.size() - first_scratch_;
  }
  std::int32_t number_count() const;
  // What this takes on the heap, about.
  std::size_t kept_bytes() const;

 private:
  class Evaluator;
  struct Memory {
    ir::ValueId value = ir::kNoValue;
    ir::DType dtype = ir::DType::kF32;
    ir::Sizes sizes;
  };

  int symbols_ = 0;
  int externals_ = 0;
  std::size_t first_scratch_ = 0;
  std::vector<Memory> memories_;  // externals, returned values, scratch
  std::vector<PlanStep> scratch_uses_;
  std::vector<LoopCode> codes_;     // without steps
  std::vector<int> element_bytes_;  // by code: of a row or slab, else 0
  std::vector<SharedLoop> shared_;  // what fills the numbers
  std::vector<TjitInPlace> in_place_;
  std::int64_t block_rows_ = 0;
};

}  // namespace tjit::llvm_backend

// What one loop reads, computes and writes, with every operand resolved to
// memory, a register or a scalar; no LLVM yet.
//
// Tested by: tests/compiler/llvm/llvm_kernel_test.cpp
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/loops/form_loops.h"
#include "compiler/schedule/loop_shape.h"
#include "compiler/schedule/math_table.h"

namespace tjit::llvm_backend {

// Element [i0, i1, ...] of the loop lies at offset + i0 * strides[0] + ...
struct MemoryAccess {
  int memory = 0;  // index into the kernel's memory
  bool is_external = false;
  ir::DType dtype = ir::DType::kF32;
  ir::Size offset;
  ir::Sizes strides;  // by dim of the loop
  bool is_of_row = false;  // read or written once per row; the last stride is 0
};

struct Source {
  enum class Kind { kRegister, kAccess, kScalar } kind = Kind::kScalar;
  ir::ValueId value = ir::kNoValue;  // kRegister
  int access = -1;                   // kAccess
  ir::Scalar scalar;                 // kScalar
};

struct Step {
  ir::Op op = ir::Op::kTo;
  ir::ValueId result = ir::kNoValue;
  ir::DType result_dtype = ir::DType::kF32;
  ir::DType dtype = ir::DType::kF32;  // that it computes for; of To: the source
  std::vector<Source> sources;
  int math = -1;  // index into the math table
  bool is_array_call = false;  // of a row function too
  bool is_row_call = false;    // of a row function, over elements
  bool is_of_row = false;      // the result has one element per row
  bool is_position_call = false;  // of one that is told the place
  bool is_column_call = false;  // the result is there when the loop ends
  bool is_slab_call = false;    // of a row op along a slab
};

struct StoreTo {
  int access = -1;
  ir::DType dtype = ir::DType::kF32;
  Source source;
  bool is_of_row = false;
};

// A result of columns goes to offset, offset + stride, ... when the loop ends;
// one of all elements is one column.
struct ColumnStore {
  ir::ValueId value = ir::kNoValue;
  int memory = 0;
  ir::DType dtype = ir::DType::kF32;
  ir::Size offset, stride;
};

// Of a rows loop (Note [Rows] in form_loops.h) the last dim is the row, and
// there is one before it. A columns loop is a rows loop too, in order; a whole
// loop is in order and may have any dims. Of a slabs loop the last dims are
// those of MakeSlabsShape().
struct LoopCode {
  ir::Sizes sizes;  // outermost first
  std::vector<MemoryAccess> accesses;
  std::vector<Step> steps;
  std::vector<StoreTo> stores;
  bool in_order = false;  // on one thread
  bool is_rows = false;
  std::vector<ColumnStore> column_stores;
  bool is_columns = false;
  bool is_whole = false;
  bool is_slabs = false;
  int split_columns = 0;  // LoopShape's
  // Elements of the last dim if the code is for so many (narrow_rows.h).
  int narrow_row = 0;
};

// The codes of a loop, to run in order: one, but two of an update. Returns ""
// or why they cannot be generated.
std::string MakeLoopCodes(const ir::Function& f, const LoopPlan& plan,
                          const Loop& loop, const MathTable& math,
                          std::vector<LoopCode>* codes);

}  // namespace tjit::llvm_backend

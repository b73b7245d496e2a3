// The loop nest of one iteration space: few dims, so that the innermost is as
// long as it can be.
//
// Dims of constant size 1 go. The others are put in the order in which the
// first stored tensor lies, and two neighbours become one where every access
// lies densely over them:
//
//   [n0,8]: (8,1) (8,1)   -> [n0*8]: (1) (1)
//   [n0,8]: (8,1) (0,1)   -> the same two dims
//   [n0,8]: (1,n0) (1,n0) -> [n0*8]: (1) (1)
//
// The order of a loop's iterations is free, unless it is asked to be kept.
// Tested by: tests/compiler/llvm/llvm_layout_test.cpp, llvm_rows_test.cpp,
// llvm_slabs_test.cpp
#pragma once

#include <vector>

#include "compiler/ir/ir.h"

namespace tjit::llvm_backend {

struct LoopShape {
  ir::Sizes sizes;                 // outermost first, at least one
  std::vector<ir::Sizes> strides;  // by access, then by dim
  int split_columns = 0;           // of MakeSlabsShape()
};

// accesses: all of the same sizes, which those of the space are; the first one
// is the stored tensor. `in_order`: elements stay in row-major order.
LoopShape MakeLoopShape(const ir::Sizes& sizes,
                        const std::vector<ir::Geometry>& accesses,
                        bool in_order);

// Of a rows loop: the last dim is the row, and there is at least one before it.
LoopShape MakeRowsShape(const ir::Sizes& sizes,
                        const std::vector<ir::Geometry>& accesses);

// Of a slabs loop: the last two dims are the rows of a slab, which `dim` is,
// and its columns. Columns that do not lie densely in all accesses are several
// dims, of which all but the last, `split_columns` of them, come before the
// rows. There is at least one dim before those.
LoopShape MakeSlabsShape(const ir::Sizes& sizes,
                         const std::vector<ir::Geometry>& accesses, int dim);

}  // namespace tjit::llvm_backend

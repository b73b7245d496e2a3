// What a reduction or a row op goes along. The file includes nothing, as files
// that are compiled for one instruction set include it (row_functions.h).
#pragma once

namespace tjit::ir {

enum class Axis {
  kInner,    // the last dim: rows
  kOuter,    // all dims but the last: columns
  kAll,      // all dims, as one row
  kStrided,  // one dim that is not the last: the rows of slabs
};

}  // namespace tjit::ir

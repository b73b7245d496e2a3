// What loops there are, which of them an instruction asks for, and what
// instructions in one loop hand over in registers.
//
// Passes keep loops together that do not exist yet: loops/form_loops.h makes
// them, loops/fuse.h decides which instructions share one.
// Tested by: tests/compiler/loops/form_loops_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>

#include "compiler/ir/ir.h"

namespace tjit {

enum class LoopKind : std::uint8_t {
  kPointwise,  // iterations are independent: any order, vectors, threads
  kRows,       // rows are independent: pointwise instructions of elements and
               // of rows, reduce and row ops along the last dim
  kColumns,    // pointwise instructions and reduce ops of all dims but the
               // last; in order
  kWhole,      // the same with reduce ops of all dims; in order
  kReduce,     // pointwise instructions, the last is a reduce op of other dims
  kSlabs,      // columns are independent: pointwise instructions and row ops
               // along one dim that is not the last
  kUpdate,     // one `update`: its first operand is copied whole to the home
               // of the result, then the elements of the second replace
};
const char* Name(LoopKind kind);

// The kind of loop and the iteration space that an instruction asks for.
LoopKind LoopKindOf(const ir::Instruction& in);
ir::Sizes LoopSizesOf(const ir::Function& function, const ir::Instruction& in);

// True if operand number `operand` may be the register of a value that the
// same loop has made.
bool TakesRegister(const ir::Function& function, const ir::Instruction& in,
                   std::size_t operand);

// The dim of a row op that asks for a slabs loop; -1 of others.
int SlabDimOf(const ir::Instruction& in);
// The reduce or row op goes along the last dim.
bool IsAlongRows(const ir::Instruction& in);
// The reduce op goes over all dims but the last: Note [Columns].
bool IsAlongColumns(const ir::Instruction& in);
// The reduce op goes over all dims, and there is a function for it that takes
// the elements as they come: Note [Whole].
bool IsOverWhole(const ir::Instruction& in);
// Note [Rows] in form_loops.h. True if each element of the pointwise
// instruction reads what the value has for its row: all dims but the last.
bool ReadsRow(const ir::Function& function, const ir::Instruction& in,
              std::size_t operand);
// `rows` is `all` without its last dim.
bool AreRowsOf(const ir::Sizes& rows, const ir::Sizes& all);
// True of loops that may run in any order of their iterations, rows or columns.
bool RunsInParts(LoopKind kind);

}  // namespace tjit

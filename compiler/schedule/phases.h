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
// Note [Late steps]. A step runs in the phase that reads it first, not in the
// first one that could: its result then needs no buffer, and memory is read
// while the results of functions are there to be used. Only what reads nothing
// but rows of memory, buffers that are there anyway and other late steps.
//
// Stores to externals wait for the last phase: what they replace may be loaded
// in any. A loop without array functions is one phase, without tiles.
//
// Note [Stored by calls]. What a row function makes of elements lies right
// where it is stored, if that is memory of the kernel's own where rows lie
// densely: no buffer, which for long rows is most of a cache, and no copy. Not
// in a loop that writes to externals, whose last phase would come too early.
//
// A rows loop (Note [Rows] in form_loops.h) calls row functions, and its tiles
// are some whole rows. What there is one of per row lies in buffers with one
// element per row. In each phase the code of rows comes before that of
// elements, which may read what it has put there.
//
// A columns loop (Note [Columns] there) has one phase more at the end: its
// functions of columns give their results, which are stored.
//
// Tiles of a slabs loop (Note [Slabs] there) are some columns, all rows of
// each.
// Tested by: tests/compiler/llvm/llvm_math_test.cpp
#pragma once

#include <map>
#include <set>
#include <vector>

#include "compiler/schedule/loop_code.h"

namespace tjit::llvm_backend {

struct TileBuffer {
  ir::DType dtype;
  bool is_of_row;
  int access = -1;  // it is the memory there: Note [Stored by calls]
};

struct Phases {
  int count = 1;
  std::vector<int> of_step;   // by step; of calls: behind which they run
  std::vector<int> of_store;  // by store
  std::vector<char> is_by_call;  // by store: no code does it
  // Buffers, numbered; those of accesses are filled in phase 0.
  std::vector<TileBuffer> buffers;
  std::map<ir::ValueId, int> buffer_of_value;
  std::map<int, int> buffer_of_access;

  bool uses_tiles() const { return !buffers.empty(); }
};

Phases MakePhases(const LoopCode& code);

// The vector code of one phase, of rows or of elements.
struct PhaseCode {
  bool is_empty = true;
  std::set<int> accesses;            // loaded and stored
  std::set<ir::ValueId> row_values;  // with one element per row, that the
                                     // code of elements reads
  bool is_dense = true;  // the rows of a tile may run as one long row; of a
                         // slabs loop, if the tile has all columns
};
PhaseCode CodeOf(const LoopCode& code, const Phases& phases, int phase,
                 bool is_of_row);

// The steps of a phase that are calls, in the order in which they may run.
// Sums of columns come last: what loads little for what it computes goes over
// the tile first, while the processor fetches the rest of it.
std::vector<int> CallsOf(const LoopCode& code, const Phases& phases, int phase);

// An array, row or slab function may read the access where it lies: halves are
// floats in its arrays.
bool IsDirect(const LoopCode& code, int access);

// Of one element in a buffer.
int RegisterBytes(ir::DType dtype);

// Bytes of one element in all buffers but those with one element per row, and
// those that are memory.
int TileElementBytes(const Phases& phases);

// So long a row may be, in bytes by TileElementBytes(): the second-level cache
// holds it, and the stack of a thread, unless it was made smaller than usual.
inline constexpr int kMaxRowBytes = 512 << 10;

// Of each column for each function of columns: its state, and the result.
inline constexpr int kColumnStateBytes = kTjitColumnBytes + 8;

}  // namespace tjit::llvm_backend

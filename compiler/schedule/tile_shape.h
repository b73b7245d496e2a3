// How a loop is cut up: lanes of a register, elements of a tile.
// Tested by: tests/compiler/llvm/llvm_kernel_test.cpp, llvm_math_test.cpp
#pragma once

#include "compiler/schedule/loop_code.h"
#include "compiler/schedule/phases.h"

namespace tjit::llvm_backend {

// As many as fit a register; narrow types do not widen the block.
int LanesOf(const LoopCode& code, int register_bytes);

// The loop reads columns where it writes rows, or the other way round.
bool Transposes(const LoopCode& code);

// Elements of a tile, all of whose buffers fit the first-level cache.
int TileElements(const LoopCode& code, const Phases& phases);

// What is read for each row is the same: a bias, values of columns. Part of it
// stays in the second-level cache for the rows of a block.
bool RepeatsColumns(const LoopCode& code);

inline constexpr int kMaxTileRows = 1024;  // of a rows loop
// Of a slabs loop: so much in all buffers of a tile, or more if that is all
// columns or fewer than so many; whole vectors of columns.
inline constexpr int kSlabTileBytes = 64 << 10;
inline constexpr int kMostSlabTileBytes = 256 << 10;
inline constexpr int kFewColumns = 64;
inline constexpr int kSlabColumns = 16;
// Of a loop that transposes: a line of the cache that holds part of one column
// is used up before the next ones replace it.
inline constexpr int kBlockRows = 16;
inline constexpr int kBlockColumns = 32;
inline constexpr int kRepeatedColumns = 4096;  // of one that repeats columns

}  // namespace tjit::llvm_backend

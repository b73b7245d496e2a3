// Loops that hand over rows, run block by block.
//
// Note [Row blocks]. Of two loops over the same rows, where the second reads
// what the first one wrote, all that lies between the two reads of a row is
// more than a cache holds if there are many rows:
//
//   loop 0 [n]:   t[i]    = f(x[i,0], x[i,1], x[i,2])
//   loop 1 [n,6]: y[i,j]  = g(x[i,j], t[i])
//
// With a block of rows through loop 0, then the same rows through loop 1, then
// the next block, x and t come from the cache. Loops are joined so if nobody
// can tell: each memory that one of them writes is, by all of them, touched for
// row i only in a stretch of its own, [from + i * stride, from + (i+1) *
// stride), of one stride and one size of element. Memories that may be one
// (in_place.h, place_scratch.h) count as one or keep the loops apart. Sizes are
// known by then, so this is arithmetic.
//
// Source: loop tiling with fusion across producers and consumers, as
// Halide's compute_at(consumer, row_block).
// Tested by: tests/compiler/schedule/llvm_row_blocks_test.cpp
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compiler/abi/kernel_abi.h"
#include "compiler/schedule/loop_code.h"

namespace tjit::llvm_backend {

// Scratch memory as it is placed: bytes [begin, end) of one piece.
struct ScratchPlace {
  std::uint64_t begin = 0, end = 0;
};

struct KernelMemory {
  int externals = 0;
  int returned = 0;
  std::vector<ScratchPlace> scratch;
  std::vector<TjitInPlace> in_place;
};

// What a block may touch of rows: more than first-level caches hold, less than
// the second-level ones that there are (256 KiB and more).
inline constexpr std::int64_t kBlockBytes = 128 << 10;

// By code: 0 if the next one runs behind it, else the rows of a block that both
// take before either takes the next. `rows`: of all blocks; 0: by kBlockBytes.
std::vector<std::int64_t> RowBlocks(
    const std::vector<LoopCode>& codes, const KernelMemory& memory,
    const std::function<std::int64_t(const ir::Size&)>& number,
    std::int64_t rows);

}  // namespace tjit::llvm_backend

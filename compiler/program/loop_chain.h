// Runs loops of a kernel that follow each other block by block (Note [Row
// blocks] in compiler/schedule/row_blocks.h), and in a zigzag.
//
// Note [Zigzag]. A loop that touches more than a cache holds finds none
// of it there when it runs again: what it reads first went first. So every
// other run takes pieces of it from the last one to the first, and begins with
// what is in the cache. With 1 MB of second-level cache (Zen 5)
// rate-triple-64k, 5.8 MB, takes 61 instead of 72 us, and reduce-sum, 4
// MB, 43.7 instead of 46.4. The larger, the less of it is still there, and
// memory is slower backwards: what touches 12 MB and more (ln-gelu-res-4096,
// lbm-512) took 7 and 20 % longer.
//
// Source: boustrophedon (zig-zag) order of iterations, as of out-of-core codes.
// Tested by: tests/compiler/program/run_chain_test.cpp,
// tests/compiler/schedule/llvm_row_blocks_test.cpp
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tjit {

// Loops that run together, or one alone.
struct Chain {
  std::size_t first = 0, last = 0;
  std::int64_t rows = 0;  // of a block; 0 of one alone
};

// The one that begins with `first`. blocks: as in KernelShape.
inline Chain ChainFrom(const std::vector<std::int64_t>& blocks,
                       std::size_t first) {
  Chain chain{first, first, blocks[first]};
  while (blocks[chain.last] > 0) ++chain.last;
  return chain;
}

// run(loop, begin, end) for the chain's loops, block by block. One alone runs
// once, with no rows too: columns begin and end then.
template <class RunLoop>
void RunChain(const Chain& chain, std::int64_t begin, std::int64_t end,
              const RunLoop& run) {
  if (chain.rows == 0) return run(chain.first, begin, end);
  for (std::int64_t at = begin; at < end; at += chain.rows) {
    const std::int64_t to = std::min(at + chain.rows, end);
    for (std::size_t i = chain.first; i <= chain.last; ++i) run(i, at, to);
  }
}

// Less lies in the cache anyway, more has left it; pieces touch a part of the
// second-level caches that there are (1 to 2 MiB).
inline constexpr std::int64_t kZigzagBytes = 1 << 20;
inline constexpr std::int64_t kMostZigzagBytes = 8 << 20;
inline constexpr std::int64_t kPieceBytes = 512 << 10;

// Rows of a piece of the chain, of `extent` rows that touch `bytes`; 0: it is
// run in one.
inline std::int64_t PieceRows(const Chain& chain, std::int64_t extent,
                              std::int64_t bytes) {
  if (bytes <= kZigzagBytes || bytes > kMostZigzagBytes || extent == 0) {
    return 0;
  }
  const std::int64_t rows = std::max<std::int64_t>(
      1, kPieceBytes / std::max<std::int64_t>(1, bytes / extent));
  // Whole vectors and tiles of rows of one element, whole blocks.
  std::int64_t unit = chain.rows;
  if (unit == 0) unit = rows > 1024 ? 1024 : 1;
  return (rows + unit - 1) / unit * unit;
}

// run(begin, end) for pieces of [begin, end), the last one first if it goes
// backwards. rows: PieceRows().
template <class RunPiece>
void RunPieces(std::int64_t begin, std::int64_t end, std::int64_t rows,
               bool goes_back, const RunPiece& run) {
  if (rows == 0 || !goes_back) return run(begin, end);
  if (begin == end) return;
  for (std::int64_t at = begin + (end - begin - 1) / rows * rows; at >= begin;
       at -= rows) {
    run(at, std::min(at + rows, end));
  }
}

}  // namespace tjit

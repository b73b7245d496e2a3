// Runs loops of a kernel that follow each other block by block (Note [Row
// blocks] in compiler/llvm/row_blocks.h).
// Tested by: tests/compiler/llvm_row_blocks_test.cpp
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

}  // namespace tjit

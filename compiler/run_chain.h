// Runs loops of a kernel that follow each other block by block (Note [Row
// blocks] in compiler/llvm/row_blocks.h).
// Tested by: tests/compiler/llvm_row_blocks_test.cpp
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tjit {

// The last loop of those that run together with `first`, itself if none does.
inline std::size_t LastOfChain(const std::vector<std::int64_t>& blocks,
                               std::size_t first) {
  while (blocks[first] > 0) ++first;
  return first;
}

// run(loop, begin, end) for loops `first` to `last`, in blocks of rows. One
// loop alone runs once, with no rows too: columns begin and end then.
template <class RunLoop>
void RunChain(std::size_t first, std::size_t last, std::int64_t rows,
              std::int64_t begin, std::int64_t end, const RunLoop& run) {
  if (first == last) return run(first, begin, end);
  for (std::int64_t at = begin; at < end; at += rows) {
    const std::int64_t to = std::min(at + rows, end);
    for (std::size_t i = first; i <= last; ++i) run(i, at, to);
  }
}

}  // namespace tjit

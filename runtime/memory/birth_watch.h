// Which small blocks libtorch has allocated on a thread since some moment.
//
// A tensor that libtorch makes of a number below the dispatcher (where(c, x,
// 0.5), scalar_tensor()) looks like any other when an op meets it. That its
// memory is younger than the call of a function says that it was made in it.
// Implemented in block_allocator.cpp.
// Tested by: tests/runtime/memory/block_test.cpp
#pragma once

#include <cstdint>
#include <vector>

namespace tjit::runtime {

struct Block;

// Blocks of at most kMostBytes, in the order of their allocation. One whose
// memory was given back and taken again is there twice.
struct BirthWatch {
  static constexpr std::uint64_t kMostBytes = 16;

  std::vector<const Block*> born;  // without memory for more, not all

  bool Saw(const Block* block) const;
};

// From now on `watch`, which has to live until another one, or null, takes its
// place, is told of allocations of this thread.
void WatchBirths(BirthWatch* watch);

}  // namespace tjit::runtime

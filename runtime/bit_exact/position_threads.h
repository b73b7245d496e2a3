// How eager cuts a loop among threads, which decides where its vectors end
// (Note [Position-dependent functions] in compiler/schedule/math_table.h).
// Thread: any, about itself.
// Tested by: tests/runtime/bit_exact/position_dependent_test.cpp
#pragma once

#include <cstdint>

namespace tjit::runtime {

// How eager cuts `total` elements for so many threads, a chunk being worth one
// from more than `grain` elements on: elements of a chunk.
std::int64_t PositionChunk(std::int64_t total, std::int64_t grain, int threads);

// While it lives, position-dependent functions on this thread are parts of what
// a thread does for which eager would use so many threads. Without one, or with
// 0: this thread's own.
class PositionThreads {
 public:
  explicit PositionThreads(int threads);
  ~PositionThreads();
  PositionThreads(const PositionThreads&) = delete;

  // Of the calling thread.
  static int Current();
  // What the innermost one says; without one what Current() says.
  static int InForce();

 private:
  const int before_;
};

}  // namespace tjit::runtime

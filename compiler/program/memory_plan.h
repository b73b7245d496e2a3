// Plans the memory of a segment: which steps must run at all, and where the
// values that nobody owns any more lie in the arena.
//
// Stands last, when the order of the steps and the live-out mask are final.
// A value that the program dropped while it was pending is not needed outside:
// its step runs only if another needed step reads it, into an arena range that
// is reused after its last reader (best fit over lifetimes, offsets are
// multiples of 64). A larger one lies, if it can, in memory that is there
// anyway and empty: that of a value which survives and is born later, or that
// of a dropped external behind its last use.
//
// Note [Results over operands]. A result takes the very place of an operand
// that dies with the step, where the step allows it: PlanStep::in_place. Values
// that follow one another in this way are one *chain*, placed as one value.
// Tested by: tests/compiler/program/plan_memory_test.cpp
// Source: the planners of Pisarchyk and Lee, "Efficient Memory Management for
// Deep Neural Net Inference", 2020 (arXiv 2001.03288): greedy by size, and
// greedy by breadth where that leaves holes, for up to 1,024 values and pieces
// of scratch. The smaller arena is taken. Takes time quadratic in them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace tjit {

struct PlanStep {
  std::vector<std::int32_t> reads;   // slots read
  std::vector<std::int32_t> writes;  // slots written, born or in place
  // (result, operand): the result may have the operand's address.
  std::vector<std::pair<std::int32_t, std::int32_t>> in_place = {};
  std::vector<std::uint64_t> scratch = {};  // that it needs meanwhile, in bytes
};

struct PlanSlot {
  std::uint64_t bytes = 0;
  std::int32_t born_step = -1;  // index into the steps; -1: exists before
  bool live_out = true;         // somebody owns it after the segment
  // Exists before, and all its memory is free behind its last use.
  bool is_given_up = false;
};

struct Placement {
  std::int32_t slot = -1;
  std::uint64_t offset = 0;  // into the arena, or
  std::int32_t host = -1;    // into the memory of this slot
};

// Where a piece of a step's scratch lies.
struct ScratchPlace {
  std::uint32_t step = 0;  // index into the needed ones
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // into the arena, or
  std::int32_t host = -1;    // into the memory of this slot
};

struct MemoryPlan {
  std::vector<std::uint32_t> needed;  // steps that run, ascending
  std::vector<Placement> placements;  // slots that lie in the arena
  std::uint64_t arena_bytes = 0;
  std::vector<ScratchPlace> scratch;  // in the order of the steps
};

// Smaller values stay together in the arena, which the first cache holds.
inline constexpr std::uint64_t kMinHostedBytes = 4096;

// REQUIRES: every slot number is an index into `slots`, or -1 (undefined).
MemoryPlan PlanMemory(const std::vector<PlanStep>& steps,
                      const std::vector<PlanSlot>& slots,
                      std::uint64_t min_hosted_bytes = kMinHostedBytes);

}  // namespace tjit

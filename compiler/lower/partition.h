// Sorts the steps of a segment into groups, each of which becomes one compiled
// kernel, and single steps, which stay library calls.
//
// How: one pass over the steps in their order. A step depends on the earlier
// ones that wrote a slot which it reads or writes, or that read a slot which it
// writes. It may join any group that stands at or behind the last item it
// depends on, since what was put behind that is earlier and independent of it;
// it takes one that shares a slot with it, else one over as many elements. A
// single step goes before the first group behind what it depends on, so that
// what follows it meets the groups that wait for it, and single steps between
// two groups keep their order:
//
//   a = x + y; m = mm(x, y); b = a * m   ->  mm, {add, mul}
//
// Stands first: groups are what lowering turns into functions.
//
// Invariants: (1) Two steps that depend on one another keep their order.
// (2) Every step is in one item. (3) Steps of a group ascend.
// Tested by: tests/compiler/lower/partition_test.cpp
#pragma once

#include <cstdint>
#include <vector>

namespace tjit {

struct PartitionStep {
  bool is_lowerable = false;
  // One whose own code beats the library call: an op over lists of tensors, a
  // function that eager computes slowly. It is a group also where no other step
  // joins it.
  bool is_worth_alone = false;
  std::int64_t elements = 0;         // of its iteration space
  std::vector<std::int32_t> reads;   // slots; -1: undefined
  std::vector<std::int32_t> writes;  // slots, born or in place
};

// A group (is_group) or one library call.
struct PartitionItem {
  bool is_group = false;
  std::vector<std::uint32_t> steps;  // indices, ascending
};

struct PartitionLimits {
  std::size_t min_steps = 2;    // fewer stay library calls
  std::size_t max_steps = 512;  // of a group
};

// The items in an order that may run.
std::vector<PartitionItem> Partition(const std::vector<PartitionStep>& steps,
                                     const PartitionLimits& limits = {});

}  // namespace tjit

// Gives each place of a storage that a sequence only reads a slot of its own.
//
// Note [Places]
// A program that takes rows, batches or time steps out of one tensor reads one
// storage at several places, and where they lie may change with every run:
//
//   x = stack({X[i], X[j]})     run 1: rows 3 and 8; run 2: rows 5 and 1
//
// A slot has one shift per run (SlotBinding::shift), so over one slot the rows
// would have to keep their distance. Hence each place becomes a slot: s0 for
// the first row, s1 for the second, both of the same storage. Such slots may
// have one block, and their memory may overlap in any way. What reads only is
// right all the same. Where a step writes to a block that another slot of the
// run has too, or reads what was written over another slot, the runtime runs
// what is pending first (PendingQueue::MustRunFirst()), so that no segment
// holds a write and another access over different slots.
//
// Places become slots where the sequence was known and could not be followed,
// or a place has moved on the way (RecordingPolicy::PlacesMove()): one slot for
// all costs less. A storage that the sequence writes to stays one slot: the
// compiler knows how its accesses lie to one another, as a stencil needs it.
// Where a run left such a sequence since one of its places has moved, the branch
// that is recorded there has a slot for that place (StepRecorder::Moves()):
//
//   P[0].copy_(x); y = P[i] * 2     s0 is written at row 0, s1 is read at row i
//
//   Equal places are one slot, but among the tensors of a long list: rows that
//   are drawn at random meet now and then, and the next time they do not.
//
// Thread: none of its own; plain data.
// Tested by: tests/recorder/split_places_test.cpp
#pragma once

#include <cstdint>
#include <vector>

#include "recorder/trace.h"

namespace tjit {

// Where an access begins in the record, in bytes.
inline std::int64_t OffsetOf(const TensorGeometry& g) {
  return g.offset * static_cast<std::int64_t>(g.itemsize);
}
inline std::int64_t OffsetOf(const ArgRecord& arg) {
  return OffsetOf(arg.geometry);
}

// `steps` follow a path that has slots [0, first_slot). Slots are numbered by
// first use, before and after.
void SplitPlaces(std::uint32_t first_slot, std::vector<NewStep>* steps);

}  // namespace tjit

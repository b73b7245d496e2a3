// A group whose results are a batch of one: lowered as a longer batch, so that
// one kernel serves all lengths.
//
// A size of 1 is no symbol, since a dim of 1 may be there to be broadcast. How
// the group would look with a longer first dim is a guess, made by giving its
// tensors one (a prime that is no other size); lowering that gives a function
// with a symbol for it. The guess holds if the function, with the recorded
// sizes put in for its symbols, is the one that was lowered of these sizes.
//
// Invariant: what MatchesBatchOfOne() has said yes to has the bits of the
// function of numbers, as it is that function at these sizes. Tested by:
// tests/runtime/tier2/tier2_sizes_test.cpp
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "compiler/lower/group.h"

namespace tjit::lower {

struct LongerBatch {
  std::vector<StepRecord> records;
  std::vector<GroupStep> steps;  // with these records
  std::vector<GroupSlot> slots;
};

// False if the group's results are no batch of one.
bool MakeLongerBatch(absl::Span<const GroupStep> steps,
                     absl::Span<const GroupSlot> slots, LongerBatch* longer);

// True if `general`, at the sizes that `steps` were recorded with, is what
// `numbers` is. REQUIRES: `numbers` has no symbols.
bool MatchesBatchOfOne(const Lowered& general,
                       absl::Span<const GroupStep> steps,
                       const Lowered& numbers);

}  // namespace tjit::lower

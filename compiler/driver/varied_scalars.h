// Numbers that are arguments of a kernel before a run has shown that they vary.
//
// Note [Varied scalars]. A segment of several optimizer steps holds the same
// ops with other numbers: Adam's corrections are of step 1, 2, 3 ... With the
// numbers compiled in, no two of its groups are equal, so each is lowered,
// printed and planned again, all of it is done once more when the numbers of
// the next run differ, and the code is the same (Note [Shared loops]). So where
// an op has several numbers in one segment they are arguments from the start.
// Numbers that decide code (0, powers of two, integers) stay what they are.
//
// Tested by: tests/compiler/driver/segment_code_test.cpp
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "compiler/driver/segment.h"

namespace tjit {

class VariedScalars {
 public:
  // are_found: else none is.
  VariedScalars(const SegmentInput& input, bool are_found);

  // Step `s` of the input, its varied numbers marked as arguments.
  const StepRecord& RecordOf(std::uint32_t s) const;
  bool Has(std::uint32_t s) const { return records_.contains(s); }
  // The numbers of step `s` are compiled in: not every lowering takes others.
  void Bake(std::uint32_t s) { records_.erase(s); }

 private:
  const SegmentInput& input_;
  absl::flat_hash_map<std::uint32_t, StepRecord> records_;
};

}  // namespace tjit

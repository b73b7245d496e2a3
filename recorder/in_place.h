// Results that may lie where an operand lies: of ops whose kernels read each
// element of their operands before they write the element of the result, as
// they do for the op's own in-place variant. Of complex numbers not where their
// roundings depend on it: Note [Complex results over operands].
//
// The memory plan uses it for operands that die with the step (Note [Results
// over operands] in compiler/program/memory_plan.h).
//
// Thread: any. Tested by: tests/recorder/in_place_test.cpp (which operands),
// tests/runtime/library_calls/library_calls_pointwise_test.cpp (the bits of
// each op).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "recorder/op_record.h"

namespace tjit {

// (result, operand): slots of the step's fresh results, and of arguments that
// the step only reads and whose elements lie as the result's do.
std::vector<std::pair<std::int32_t, std::int32_t>> InPlacePairs(
    const StepRecord& step);

}  // namespace tjit

// Steps of a segment as whoever sorts them into groups sees them.
// Tested by: tests/compiler/driver/segment_code_test.cpp
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/driver/segment.h"
#include "compiler/lower/partition.h"

namespace tjit {

PartitionStep DescribeStep(const SegmentStep& step);

// Each once, sorted.
std::vector<std::int32_t> SlotsOf(const PartitionStep& step);

// `steps` cut where the context changes.
std::vector<std::vector<std::uint32_t>> ByContext(
    const SegmentInput& input, const std::vector<std::uint32_t>& steps);

}  // namespace tjit

// How often a sequence must have come before its ops are deferred.
// Tested by: tests/recorder/trace_test.cpp
#pragma once

#include <algorithm>
#include <cstdint>

namespace tjit {

// `threshold` times, and fewer where the sequence has more than kUsualOps ops:
// by then as many ops have repeated. What lasts several steps of a program, as
// where a gradient is accumulated or each fourth step is another, would take
// most of a short program else.
inline std::int64_t SightingsNeeded(std::uint32_t length,
                                    std::int64_t threshold) {
  constexpr std::int64_t kUsualOps = 1024, kLeast = 4;
  if (length <= kUsualOps) return threshold;
  const std::int64_t fewer = (threshold * kUsualOps + length - 1) / length;
  return std::min(threshold, std::max(kLeast, fewer));
}

}  // namespace tjit

// A function with symbols, put beside what was lowered of one run's sizes.
//
// Lowering decides with numbers; a function with symbols that is the same
// function at these numbers has its bits. So sizes that come after others need
// no function of their own.
// Tested by: tests/compiler/driver/segment_code_test.cpp,
// tests/runtime/tier2/tier2_sizes_test.cpp
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "compiler/lower/group.h"

namespace tjit {

// The sizes of `steps` that `symbols` stand for.
std::vector<std::int64_t> SizesOf(absl::Span<const SizeSource> symbols,
                                  absl::Span<const GroupStep> steps);

// True if `general`, with `sizes` for its symbols, is `numbers`: instruction by
// instruction, in all but the strides of dims of 1. REQUIRES: `numbers` has no
// symbols.
bool MatchesAt(absl::Span<const std::int64_t> sizes,
               const ir::Function& general, const ir::Function& numbers);

}  // namespace tjit

// The functions of tjit::jit() that the process has or had, for explain().
// Thread: any.
#pragma once

#include <vector>

#include "recorder/explanation.h"

namespace tjit::runtime {

// Those that were called, in the order in which they were made; those that are
// gone come first. At most 64 of each.
std::vector<ExplainedJit> ExplainJitFunctions();

}  // namespace tjit::runtime

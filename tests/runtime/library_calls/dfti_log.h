// What is asked of MKL's transforms: libtorch's calls, which this program's
// functions of the same names come before, and those of KeptFft.
#pragma once

#include <string>
#include <vector>

#include "runtime/library_calls/fft_plan_cache.h"

namespace tjit::runtime::testing {

enum class Caller { kLibtorch, kKeptFft };

// Of this thread, since it was cleared. Without the calls that free.
std::vector<std::string>& DftiLog(Caller caller);

// For TEST_SetDfti: writes a log.
Dfti LoggingDfti();

}  // namespace tjit::runtime::testing

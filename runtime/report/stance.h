// What is refused under tjit::set_stance(): counted, and said once for each
// sequence or kept as an error (report/strict.h).
//
// Threads: any, about counters of its own; the list of what was said has a
// lock. Tested by: tests/runtime/report/stance_test.cpp
#pragma once

#include <cstdint>
#include <string>

#include "recorder/schema_key.h"
#include "runtime/platform/settings.h"
#include "support/counters.h"

namespace tjit::runtime {

// REQUIRES (all): the stance is not kDefault. `sequence` tells those apart
// that begin with the same op. A sequence that begins with `first` was not
// recorded, or not promoted.
void RefuseRecording(Counters* counters, OpId first, std::uint64_t sequence);
// True if it may be recorded or promoted, else refuses it.
inline bool MayRecord(Counters* counters, OpId first, std::uint64_t sequence) {
  if (g_settings.may_compile()) [[likely]]
    return true;
  RefuseRecording(counters, first, sequence);
  return false;
}
// A function that tjit::jit() wraps was not recorded. `form` tells its calls
// apart.
void RefuseFunction(Counters* counters, const std::string& name,
                    std::uint64_t form);
// A segment that begins with `first` was not compiled.
void RefuseCompile(Counters* counters, OpId first, std::uint64_t sequence);

}  // namespace tjit::runtime

// What a sequence takes, replayed and eagerly, as far as it was measured: for
// `tjit explain` and for rows of the instruction log, which have it where it
// has become known, has changed, and at the end.
// Thread: any. Tested by: tests/acceptance/explain_test.py,
// tests/acceptance/top_test.py
#pragma once

#include <cstdint>

#include "recorder/trace.h"

namespace tjit::runtime {

// Medians of measured complete runs; 0: none was measured.
struct SequenceTimes {
  std::int64_t eager_ns = 0, replay_ns = 0;
  std::int64_t executed_ns = 0;  // of replay_ns: what was deferred ran
};
SequenceTimes TimesOf(const Trace& trace);
// Complete runs with deferred ops.
std::int64_t ReplaysOf(const Trace& trace);

// Below: rows of the instruction log, where that is on.
// A run was measured: now and then, more often where that changes much.
void LogTimes(const Trace& trace);
// Of all, at the end of the log, or where it begins while the program runs.
void LogAllTimes(const TraceStore& store, bool is_beginning);
void LockTimesForFork();
void UnlockTimesAfterFork();

}  // namespace tjit::runtime

// TJIT_STRICT=1: each unexpected fallback (bail_reasons.def) is an error.
//
// A fallback may happen where nothing may be thrown: in a deleter, in another
// thread's flush, in an interposed reader. So it is kept with the counters of
// its thread and thrown at the op in which it happened, before that runs, or
// else at the thread's next op, mark_step() or sync(). What is still kept when
// the process ends is said on stderr.
//
// Threads: any. Tested by: tests/runtime/report/strict_test.cpp
#pragma once

#include <string>

#include "recorder/schema_key.h"
#include "support/bail.h"
#include "support/counters.h"

namespace tjit::runtime {

// Counts a fallback at `op`, and keeps it as an error if it is unexpected and
// TJIT_STRICT is on or `in_strict_region` is.
void RecordBail(Counters* counters, BailReason why, OpId op,
                bool in_strict_region = false);

// Keeps an error for the thread with these counters; the first one stays.
void KeepFailure(const Counters* counters, std::string text);
bool HasKeptFailure(const Counters* counters);
// THROWS: c10::Error with the first failure kept for these counters, once.
void ThrowKeptFailure(const Counters* counters);

// Says on stderr what nobody was told.
void PrintKeptFailures();

}  // namespace tjit::runtime

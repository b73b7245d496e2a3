// What was different when runs left a sequence, for the report
// (recorder/explanation.h): of each sequence and reason the first time only, so
// that what it takes, a walk over the stack among it, is no cost of a program
// that goes on leaving.
//
// The place is the first function on the stack that lies neither in tjit nor in
// libtorch: its symbol where the program exports it, else an address that
// addr2line resolves. There is none for calls from Python, whose frames can
// only be looked at under the interpreter's lock: ops run without it, and to
// take it here could wait for a thread that waits for this one.
//
// Thread: any.
// Tested by: tests/acceptance/explain_test.py,
// tests/runtime/thread/exit_notes_test.cpp
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recorder/explanation.h"
#include "recorder/trace.h"
#include "runtime/call/call_frame.h"
#include "runtime/call/trace_run.h"
#include "support/bail.h"

namespace tjit::runtime {

// A call left the path at `node`, for `why`. REQUIRES: no lock is held.
void RecordExit(const TraceNode& node, const CallFrame& frame, const Run& run,
                BailReason why, std::uint64_t lineage);

// What was noted of the store with this lineage.
std::vector<ExplainedExit> RecordedExits(std::uint64_t lineage);

// "Train(Batch const&)+0x21 in program"; "" if there is none.
std::string PlaceOfCall();

}  // namespace tjit::runtime

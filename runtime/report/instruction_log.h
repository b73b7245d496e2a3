// The instruction log (TJIT_INSTRUCTION_LOG): a row for every op that passes
// a wrapper, eager or deferred, and rows for what tjit does with them.
//
// Each thread writes a stream of its own (recorder/instruction_log.h); a
// thread that ends hands it back for the next one. The file is opened at the
// first op, so that a shell or a launcher leaves it alone. While the log is on
// the wrappers stay in place with tjit off: a thread that takes no part has
// LogOnlyState(), and its ops run eagerly.
//
// Off, an op pays one load and one branch in OnCall() and in AfterEager().
// Threads: any. Tested by: tests/acceptance/log_test.py
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "recorder/instruction_log_format.h"
#include "recorder/trace.h"
#include "runtime/call/eager_call.h"
#include "support/bail.h"

namespace tjit::runtime {

struct Run;

extern std::atomic<bool> g_instruction_log;
inline bool InstructionLogOn() {
  return g_instruction_log.load(std::memory_order_relaxed);
}

// Rows from now on, into `path`.
void StartInstructionLog(const std::string& path, long long mb);
// The process ends. InstructionLogOn() stays: calls are in kernels.
void CloseInstructionLog();

// What ActiveState() returns on a thread that takes no part while the log is
// on. Only to be compared with.
ThreadState* LogOnlyState();

// REQUIRES (all below): InstructionLogOn().
// An op whose kernel runs now, and how it ended.
void LogEagerCall(const CallFrame& frame);
void LogEagerResults(const CallFrame& frame, const ResultList& results);
void LogThrow();
// An op that was deferred, with its results.
void LogDeferredCall(const CallFrame& frame);

// The sequence that ops up to `last` belong to, where several share a
// beginning.
const Trace* TraceOfSegment(const TraceNode& last);

// A complete run that was followed before the sequence was hot; `is_hot_now`:
// it is since this run.
void LogSighting(const Trace& trace, std::int64_t threshold, bool is_hot_now);
// A run with deferred ops came to the end of the sequence.
void LogFinished(const Trace& trace);
// Sequences of `before` that `after` has not.
void LogForgotten(const TraceStore& before, const TraceStore& after);

// A row of another kind; `ns`: how long it took, if that is over.
void LogTraceEvent(LogEvent event, const char* what, const Trace* trace,
                   const std::string& details, std::uint64_t ns = 0);

// Around the execution of the pending ops of a run.
class SegmentRow {
 public:
  SegmentRow(LogEvent event, const Run& run, FlushReason reason) {
    if (InstructionLogOn()) [[unlikely]]
      Begin(event, run, reason);
  }
  ~SegmentRow() {
    if (row_ != nullptr) End();
  }
  SegmentRow(const SegmentRow&) = delete;
  SegmentRow& operator=(const SegmentRow&) = delete;

 private:
  void Begin(LogEvent event, const Run& run, FlushReason reason);
  void End();

  LogRecord* row_ = nullptr;
};

// Around fork(); a child's rows go into a file of its own.
void LockInstructionLogForFork();
void UnlockInstructionLogAfterFork();
void ForgetInstructionLogInChild();

}  // namespace tjit::runtime

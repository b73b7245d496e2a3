// The instruction log: a row for every op that passes a wrapper, eager or
// deferred, and rows for what tjit does with them.
//
// It is written from the start on (TJIT_INSTRUCTION_LOG), or for some seconds
// (`tjit attach`, report/attach.h). In the first case the wrappers stay in
// place with tjit off: a thread that takes no part has LogOnlyState(), and its
// ops run eagerly. In the second case InstructionLogOn() may change at any
// time: what follows then writes no row, or half of one, which stays open.
//
// Off, an op pays one load and one branch in OnCall() and in AfterEager().
// Threads: any. Tested by: tests/acceptance/log_test.py, attach_test.py
#pragma once

#include <cstdint>
#include <string>

#include "recorder/instruction_log_format.h"
#include "recorder/trace.h"
#include "runtime/call/eager_call.h"
#include "runtime/report/attach.h"
#include "support/bail.h"

namespace tjit::runtime {

struct Run;

// Rows from now on, into `path`, until the process ends.
void StartInstructionLog(const std::string& path, long long mb);
// That was called.
bool LogsFromTheStart();
// The process ends. InstructionLogOn() stays: calls are in kernels. The last
// rows say what the sequences of `store` take.
void CloseInstructionLog(const TraceStore& store);

// What ActiveState() returns on a thread that takes no part where
// LogsFromTheStart(). Only to be compared with.
ThreadState* LogOnlyState();

// All below do nothing where the log has ended meanwhile.
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
// A run of it began that is not to be deferred: as it was left too often, or
// for the sake of measuring, or as eager is faster.
enum class LetPass : std::uint8_t { kWasLeft, kRunsEagerly };
void LogLetPass(const Trace& trace, LetPass why);
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
  std::uint64_t log_ = 0;  // that it stands in
};

// Around fork(); a child's rows go into a file of its own, if they are written
// from the start on.
void LockInstructionLogForFork();
void UnlockInstructionLogAfterFork();
void ForgetInstructionLogInChild();

}  // namespace tjit::runtime

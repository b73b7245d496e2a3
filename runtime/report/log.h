// What the user sees on stderr: the `[COMPILE]` lines (TJIT_DEBUG_COMPILE) and
// warnings. spdlog underneath; nothing is printed unasked but errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/thread_trial.h"
#include "recorder/trace.h"
#include "support/bail.h"

namespace tjit::runtime {

struct Run;

// One line on stderr, always.
void LogWarning(std::string_view text);

// True if somebody wants the [COMPILE] lines; one of them, if so.
bool PrintsCompile();
void PrintCompile(std::string_view text);

// A sequence was recorded for the first time: the instruction log only.
void LogFound(const Trace* trace);
// The same of those that were hot before the log began, so that it tells what
// they are.
void LogKnown(const TraceStore& store);

// The [COMPILE] lines, where debug_compile is on, and the rows of the
// instruction log, where that is on.
// `names`: of its tensors, for the row; may be empty.
void LogHot(const TraceStore& store, const Trace* trace,
            const std::vector<std::string>& names);
void LogPreparing(const TraceNode& first, std::size_t steps);
void LogPrepared(std::size_t direct, std::size_t steps, std::uint64_t ns);
void LogExit(const Trace& trace, const TraceNode& node, BailReason why);
void LogBail(BailReason why, std::uint32_t trace_id);
// Replaying the trace does not pay.
void PrintGivenUp(const Trace& trace);
void PrintLeftAlone(const ThreadTrial& trial);
// Measured run times: prints the speed-up once per trace.
void RecordRunTime(std::uint64_t lineage, const Trace& trace, bool deferred,
                   std::uint64_t ns);

// TJIT_LOG. REQUIRES: LogsTo() the channel (detect, flush, memory).
void PrintProposed(std::uint32_t period, std::uint32_t until_cut,
                   bool at_boundary);
void PrintAbandoned(std::size_t ops);
void PrintCut(const Trace& trace, std::size_t parts);
void PrintFlush(const Run& run, FlushReason reason, bool drained);
// `name`: of the tensor; may be empty.
void PrintExposed(std::uint64_t bytes, bool by_fault, const std::string& name);

// A deferred kernel threw: a bug of ours or of a kernel; always said.
void LogStepThrew(const TraceNode& step, std::string_view what);

// "mm -> relu -> sum", at most `limit` names.
std::string Describe(const TraceStore& store, const Trace* trace,
                     std::size_t limit = 8);

}  // namespace tjit::runtime

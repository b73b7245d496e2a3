// Whole numbers that a function of tjit::jit() reads on the host, and may
// decide by: Note [Host reads] in function_plan.h.
// Threads: any.
// Tested by: tests/runtime/thread/jit_reads_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/call/call_frame.h"
#include "runtime/call/trace_run.h"
#include "runtime/thread/functions/function_session.h"

namespace tjit::runtime {

// True if `frame` is a call of the op behind Tensor::item().
bool IsHostRead(const CallFrame& frame);

// Which number the call reads, without its bits. None: it is no whole number or
// bool, or no step of the run has used it and no part returned it.
std::optional<FunctionRead> FindRead(const CallFrame& frame, const Run& run,
                                     const FunctionSession& session);

// True if all steps and reads of `a` before its read number `read` are those of
// `b`, and `b` reads `bits` there.
bool GoesOnWith(const FunctionRecord& a, const FunctionRecord& b,
                std::size_t read, std::uint64_t bits);

// True if no step would throw on what it indexes by. REQUIRES: all is bound,
// and what was pending has run.
bool IndicesHold(const FunctionPlan& plan, const Run& run);

// How many slots the steps before number `step` use.
std::size_t SlotsBefore(const FunctionRecord& record, std::size_t step);
// True if the program still has what the function has made in slot `s`, or of a
// number for it, which was bound to `block`. REQUIRES: the session follows a
// record.
bool LivesAtRead(const FunctionSession& session, std::size_t s,
                 const Block* block);

}  // namespace tjit::runtime

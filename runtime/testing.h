// Seams of the tests, which libtjit has only in a build with TJIT_TESTING.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tjit/export.h"

namespace tjit {
struct StepRecord;
}  // namespace tjit

namespace tjit::testing {

// While deferring, drain as after a mismatch whenever more than k ops are
// pending, and wherever they would be flushed; the run goes on. -1: off.
TJIT_API void SetForcedDrainAt(std::int64_t k);

// Steps are tried when they are prepared, not when they have run often.
TJIT_API void TryStepsAtOnce(bool at_once);

// Plants a defect by its name in support/planted_defect.cpp; "" for none.
// Returns false for an unknown name.
TJIT_API bool SetPlantedDefect(std::string_view name);

// Tier 2 compiles what was lowered as it is: no pass, a loop for each
// instruction. Call it while disabled; tjit::clear() behind it.
TJIT_API void SetPlainCode(bool is_plain);

// Called for each step of a segment whose compiled groups are about to run,
// with the bytes of each slot, on the thread that runs it: is the step in one
// of them? Null: nobody.
using StepObserver = void (*)(std::string_view op, const StepRecord&,
                              const std::vector<std::uint64_t>& slot_bytes,
                              bool is_compiled);
TJIT_API void SetStepObserver(StepObserver observer);

// Ops go around libtorch's dispatcher (direct_calls.h), which is so from the
// start, or all through it.
TJIT_API void SetDirectCalls(bool are_open);
// Ops that might go around it, and do not: qualified names.
TJIT_API std::vector<std::string> ClosedDirectCalls();
// Views that this thread has made around it so far (direct_views.h).
TJIT_API std::uint64_t DirectViewsMade();
// Scratch of kernels that this thread has placed so far (scratch_pool.h).
TJIT_API std::int64_t PlacedScratchBytes();

// Runs of kernels by this thread so far that went from the end of their loops
// to the beginning (loop_chain.h).
TJIT_API std::int64_t RunsTurnedBack();

// Loops of kernels that this thread shared with others of libtorch's pool so
// far (parallel.h), and whether all of several rows are, worth it or not.
TJIT_API std::int64_t LoopsShared();
TJIT_API void ShareAllLoops(bool all);

// What stands against machine code that is compiled from now on: plants of
// TjitLlvmFlag (compiler/abi/kernel_abi.h), 0 for none; what a segment may take to
// compile, negative for what is usual. Call tjit::clear() behind either, which
// forgets what could not be compiled.
TJIT_API void PlantInCompiler(std::uint32_t llvm_flags);
TJIT_API void SetCompileBudgetNs(std::int64_t ns);
// Each replay of a segment takes so much longer.
TJIT_API void SetReplayDelayNs(std::int64_t ns);
// So much work more for each op that is looked at and runs eagerly.
TJIT_API void SetRecordingDelayNs(std::int64_t ns);
// Called in each replay by library calls, where a kernel runs: inside, with the
// mutex of the thread's state held. Null: nobody.
TJIT_API void SetDuringReplay(void (*function)());
// Each run of a kernel of machine code takes so much longer.
TJIT_API void SetCodeDelayNs(std::int64_t ns);

// Nodes of all stores of recorded sequences that have not been freed.
TJIT_API std::int64_t LiveTraceNodes();

// Waits until no segment is queued for tier 2 or being compiled.
TJIT_API void WaitForCompiler();

}  // namespace tjit::testing

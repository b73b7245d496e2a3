// The rules of a recorded path. A violation is a bug of the recorder.
//
// Storages:
// (1) Slots are numbered by first use: argument by argument, then the fresh
//     results, step by step, without a gap.
// (2) A slot that a step first reads is external (born_step -1); one that is
//     a fresh result was born there, and is nobody's argument before.
// Tensors:
// (3) 0 <= ndim <= kMaxDims, sizes, strides and offset are not negative, what
//     lies past ndim and what is reserved is 0, itemsize is that of the dtype.
// (4) All elements lie within the bytes of the slot.
// (5) An undefined tensor has no geometry and is not written.
// Steps:
// (6) The op is known. An alias names a defined argument of its step.
// (7) Only a scalar that may vary is a run-time scalar.
// (8) At most kMaxTraceSteps steps.
// Nodes: (9) depth, slot_begin, scalar_begin and parent agree with the path.
// Debug builds check every path that a store takes in (trace.cpp).
// Tested by: tests/recorder/trace_verifier_test.cpp
#pragma once

#include <string>
#include <vector>

#include "recorder/trace_node.h"

namespace tjit {

// Returns all violations, each naming the step: "%3 arg 1: ...". Empty if the
// path is sound.
std::vector<std::string> VerifyPath(
    const std::vector<const StepRecord*>& steps,
    const std::vector<SlotRecord>& slots);

// The same for nodes of a store, with rule 9.
std::vector<std::string> VerifyPath(const std::vector<const TraceNode*>& path);

}  // namespace tjit

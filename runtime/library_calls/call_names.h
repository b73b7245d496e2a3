// The names that tensors of a recorded call had (tjit::name), by their place in
// it. They are those of the run that was recorded: a later run may have tensors
// of other names there, and shares the sequence all the same.
// Threads: any, under MutexOfNames(). Tested by: tests/runtime/name_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "recorder/trace_node.h"
#include "runtime/call/call_frame.h"
#include "runtime/library_calls/library_call.h"

namespace tjit::runtime {

// Gives the recorded `call` the names that its arguments have now.
void RecordArgumentNames(const CallFrame& frame, CapturedCall* call);
// In the place of the name that the tensor had in the call.
void RecordCallName(NamedTensor named, CapturedCall* call);

std::vector<NamedTensor> NamesOfCall(const CapturedCall& call);
// The slot of `step` that the tensor is in; kNoSlot if it is in none.
std::int32_t SlotOf(const StepRecord& step, const NamedTensor& named);
// Of argument or result `index` of a recorded step; "" if it had none.
std::string RecordedName(const TraceNode& node, bool is_result,
                         std::size_t index);
// The same behind `before`, as it is printed; "" if it had none.
std::string RecordedNameText(const char* before, const TraceNode& node,
                             bool is_result, std::size_t index);

// Sets the names of the slots that the step has named tensors in, and that have
// none so far. REQUIRES: `names` has a place for each slot of the step.
void AddSlotNames(const TraceNode& node, std::vector<std::string>* names);

}  // namespace tjit::runtime

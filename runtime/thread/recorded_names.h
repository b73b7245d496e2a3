// Names that the program gives to results while their sequence is recorded.
//
// A result is named once its op has been called, and has often died before the
// recording ends:
//
//   h = at::relu(x); tjit::name(h, "hidden"); y = h + b;   // h dies
//
// So the name goes to the slot right away, and into the steps at the end.
// Others are named once it has ended, as the result of the last op is. So the
// results are known until a result of another run is named, each by what its
// block was bound to: a block that another tensor has got is none of them.
// Thread: each for itself. Tested by: tests/runtime/name_test.cpp
#pragma once

#include <c10/core/TensorImpl.h>

#include <string>
#include <vector>

#include "recorder/trace_node.h"
#include "runtime/call/trace_run.h"

namespace tjit::runtime {

// Steps over this run are recorded from now on.
void BeginRecordedNames(const Run* run);
void EndRecordedNames();
// The tensor is called so. Nothing happens where it is none of the run.
void RecordName(const c10::TensorImpl* impl, const std::string& name);
// Into the steps that have made these tensors, recorded over `run`.
void ApplyRecordedNames(const Run* run, const std::vector<NewStep>& steps);

}  // namespace tjit::runtime

// Calls that join many tensors: a batch that is stacked, a replay memory from
// which some are drawn. Which tensors these are says nothing about the call.
// Tested by: tests/runtime/thread/places_test.cpp
#pragma once

#include "runtime/call/call_frame.h"
#include "support/policy.h"

namespace tjit::runtime {

inline bool JoinsMany(const CallFrame& frame) {
  return frame.tensors.size() > policy::kMergedPlaces &&
         (frame.entry.name == "aten::cat" || frame.entry.name == "aten::stack");
}

}  // namespace tjit::runtime

// The definition of RecordingPolicy::FindRoot, for the files that call it.
#pragma once

#include "recorder/step_shape.h"
#include "runtime/thread/match.h"
#include "runtime/thread/recording_policy.h"

namespace tjit::runtime {

template <class Accept>
TraceNode* RecordingPolicy::FindRoot(const CallFrame& frame,
                                 Accept accept) const {
  BailReason why;
  for (const std::uint64_t shape :
       {ShapeOf(frame, context_), AtCallShape(frame.entry.id, context_)}) {
    for (TraceNode* n = store_->RootsOf(shape); n != nullptr;
         n = n->next_root.load(std::memory_order_acquire)) {
      if (MatchShape(frame, context_, n->step, &why) && accept(n)) return n;
    }
  }
  return nullptr;
}

}  // namespace tjit::runtime

// The definition of RecordingPolicy::FindRoot, and ForEachHotRoot(), for the
// files that call them.
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

// Calls f(root, trace) for the first steps of hot traces that are of this op,
// whatever their sizes.
template <class F>
void ForEachHotRoot(TraceStore& store, OpId op, F f) {
  const TraceNode* const top = store.top();
  for (const TraceNode* n = top->first_child.load(std::memory_order_acquire);
       n != nullptr; n = n->next_sibling.load(std::memory_order_acquire)) {
    const Trace* const trace = n->owner.load(std::memory_order_acquire);
    if (n->step.op == op && trace != nullptr &&
        trace->hot.load(std::memory_order_relaxed)) {
      f(*n, *trace);
    }
  }
}

}  // namespace tjit::runtime

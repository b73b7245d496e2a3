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
  for (const std::uint64_t shape :
       {ShapeOf(frame, context_), AtCallShape(frame.entry.id, context_)}) {
    TraceNode* const root =
        store_->children().Find(store_->top(), shape, [&](TraceNode* n) {
          return MatchNode(frame, context_, *n, nullptr) && accept(n);
        });
    if (root != nullptr) return root;
  }
  return nullptr;
}

// Calls f(root, trace) for the first steps of hot traces that are of this op,
// whatever their sizes.
template <class F>
void ForEachHotRoot(const TraceStore& store, OpId op, F f) {
  store.children().ForEachRoot(op, [&](const TraceNode& root) {
    const Trace* const trace = root.owner.load(std::memory_order_acquire);
    if (trace != nullptr && trace->hot.load(std::memory_order_relaxed)) {
      f(root, *trace);
    }
  });
}

}  // namespace tjit::runtime

// Records a sequence as parts where its sizes vary on their own: see Note
// [Sizes that vary on their own] in recorder/size_cuts.h.
//
// A recording that begins as the sequence does ends where the first part ends,
// as that is a known trace in other sizes. Behind it, and behind a run that
// ends there, comes the next part: known sizes of it are replayed, new ones
// recorded as those of any trace (RecordMissedRoot()), and where it is not hot
// yet it is recorded at once (MaybeStartRest()).
//
// Thread: any. Tested by: tests/runtime/thread/own_sizes_test.cpp
#pragma once

#include <cstdint>

#include "recorder/trace.h"
#include "support/counters.h"

namespace tjit::runtime {

class ThreadRegistry;
struct LoopState;

// One more path of `trace` was recorded, in other sizes: it may be cut now. If
// the store is full it stays whole.
void CutBySizes(TraceStore* store, Trace* trace, std::int64_t threshold,
                ThreadRegistry* registry, Counters* counters);

// A call came that is none of those behind `node`: why not. True if a trace
// ends at `node` from now on: the thread runs sequences in parts, and a part of
// this one ends there, or the call has other sizes than the path, which has
// none that came back.
bool CutAt(TraceNode* node, BailReason why, const LoopState& loops,
           TraceStore* store, ThreadRegistry* registry, Counters* counters);

// True if a run that was replayed up to `at` ends there, though it goes on with
// `next` as a trace does that was cut: what comes is a sequence of its own.
inline bool EndsAtCut(const TraceNode& at, const TraceNode& next) {
  if (next.hot.load(std::memory_order_relaxed)) return false;
  const Trace* const ends = at.ends.load(std::memory_order_acquire);
  return ends != nullptr && ends->ends_at_cut.load(std::memory_order_relaxed);
}

}  // namespace tjit::runtime

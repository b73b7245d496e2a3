// What a thread knows of its loops beside the period that holds: the branch
// points of its stream, and how the present capture is to end. Thread: belongs
// to one ThreadState. Tested by: tests/runtime/thread/engagement_test.cpp
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "recorder/backoff.h"
#include "recorder/branch_finder.h"
#include "recorder/profile.h"
#include "recorder/token_ring.h"
#include "recorder/trace.h"
#include "support/policy.h"

namespace tjit::runtime {

struct LoopState {
  BranchFinder regions;
  BranchFinder::Next next = BranchFinder::Next::kUnknown;
  // Steps of the longest capture, or run of a trace, that came to its end.
  std::uint32_t longest = 0;
  // Position in the stream from which it starves: see Note [Regions].
  std::uint64_t starves_from = policy::kStarvingOps;
  std::uint64_t learn_from = 0;  // position from which branch points are learnt
  bool due = false;              // a region begins with the next op
  bool to_branch_point =
      false;  // the open capture ends at the next branch point
  // Ops that had been called at the last edge of a named region, where the next
  // op begins a body; -1: none does. Note [Named regions] in region_edge.cpp.
  std::int64_t body_from = -1;
  // Ops that had been called at the last edge; -1: there was none.
  std::int64_t edge_at = -1;
  bool to_edge = false;  // the open capture ends at the next edge
  Backoff region_captures{policy::kMostRegionFailures};

  // The capture of a period: iterations of so many ops, and how often they had
  // come when it was found.
  std::uint32_t period = 0;
  std::uint32_t sightings = 0;
  bool varies = false;  // its trip count
  // From one begin to the next, where other ops lie in between; 0: none do.
  std::uint32_t distance = 0;
  // The last op that the detector saw.
  struct LastOp {
    OpId op = kNoOp, before = kNoOp;
    StreamToken token{0};
  };
  LastOp last;
  struct Stretch {
    LastOp first;
    std::uint32_t length = 0, distance = 0;  // as HotDetector::Candidate
    std::uint32_t trace = 0;                 // id
  };
  // Note [Stretches] in hot_detector.cpp: the last ones that were recorded.
  std::array<Stretch, 8> stretches;
  std::uint32_t next_stretch = 0;
  LastOp first_of_capture;  // of a stretch
  // The open capture is of one of them, in other sizes: it has so many steps.
  std::uint32_t stretch_length = 0;
  // An iteration was run of a loop whose sizes are others from time to time:
  // the next one may begin anywhere behind it, in new ones.
  bool awaits_iteration = false;
  // Ops that will have been called when regions are cut again: what lies
  // between two such stretches is little, and new each time.
  std::int64_t cut_from = 0;
  // The last period whose sizes were too many, in ops.
  std::uint64_t period_of_sizes = 0;
  // Ops that had been called when the last new trace was recorded.
  std::int64_t found_at = -policy::kOpsAfterFind;
  std::int64_t paths = 0;  // that have been recorded
  // Of late: new traces, and runs of traces to their end.
  std::uint32_t new_traces = 0;
  std::uint32_t runs = 0;
  // A run was left where another list of tensors was joined than the recorded
  // one: see JoinsDrawn().
  bool joins_vary = false;
  // The last one whose sizes were too many: of its first step.
  std::uint64_t dropped_shape = 0;

  // The present capture walks a profile (null: it does not).
  const Profile* profile = nullptr;
  const KnownNode* known_root = nullptr;
  const KnownNode* known = nullptr;  // the last step; null: none yet
  std::size_t known_size = 0;        // steps up to there
  std::size_t complete = 0;          // steps of the longest sequence so far
  struct Tries {
    std::size_t wasted = 0;  // steps that were recorded for nothing
    int failures = 0;
    bool is_done = false;
  };
  absl::flat_hash_map<const KnownNode*, Tries> tries;  // by first step

  // Note [New sizes] in record.cpp.
  enum class Size : std::uint8_t {
    kOther,  // none, or the one before, one of too many, of a short rest
    kFree,   // new, and no reason to let entries pass
    kBack,   // it was left out before, and others came in between
  };
  // Of the call that leaves a trace, if its sizes are others; else 0.
  std::uint64_t exit_shape = 0;
  // By id of the node behind which they came.
  struct Sizes {
    std::uint32_t count = 0;
    std::uint64_t last = 0;
  };
  absl::flat_hash_map<std::uint32_t, Sizes> sizes_at;
  // Ops that had been called when a part of a cut trace ended: the next part
  // begins with the last of them.
  std::int64_t rest_from = -1;
  bool is_rest = false;    // the open capture began there
  bool has_parts = false;  // some part has ended on this thread
  // By its first op: recordings of what came behind parts since one of them was
  // of a known trace.
  absl::flat_hash_map<OpId, std::uint32_t> rests;
  std::int64_t part_paths = 0;  // that were recorded
  // By id of the trace, once it is not worth more paths: runs that other sizes
  // ended.
  absl::flat_hash_map<std::uint32_t, std::uint32_t> sizes_in_vain;
  // Hashes of places and sizes that came there without being recorded.
  std::array<std::uint32_t, 1024> came{};

  // A stretch has been recorded, as a path of `trace`.
  void RecordStretch(const Trace& trace, std::uint32_t length) {
    for (const Stretch& known : stretches) {
      if (known.length != 0 && known.trace == trace.id) return;
    }
    stretches[next_stretch++ % stretches.size()] = {first_of_capture, length,
                                                    distance, trace.id};
  }
  // Length of the one that begins with the next op, maybe in other sizes; 0:
  // none does. `peek()`: its token.
  template <class Peek>
  std::uint32_t StretchFrom(Peek peek) const {
    for (const Stretch& stretch : stretches) {
      if (stretch.length == 0 || stretch.first.before != last.op) continue;
      if (stretch.first.token.IsAlike(peek())) return stretch.length;
    }
    return 0;
  }

  // A run of a trace has ended when so many ops had been called.
  void RecordStretchRun(const Trace& trace, std::int64_t seen) {
    for (const Stretch& stretch : stretches) {
      if (stretch.length == 0 || stretch.trace != trace.id) continue;
      const std::uint32_t between = stretch.distance - stretch.length;
      if (policy::kOpsOfEachBetween * between <= stretch.length) {
        cut_from =
            seen + policy::kStretchTimes * std::int64_t{stretch.distance};
      }
    }
  }

  // True if they came before, as far as is known.
  bool CameBefore(std::uint64_t place, std::uint64_t shape) {
    const std::uint64_t hash = (place ^ shape) * 0x9E3779B97F4A7C15ull;
    const auto word = static_cast<std::uint32_t>(hash) | 1;
    return std::exchange(came[hash >> 54], word) == word;
  }
  // `shape`: as exit_shape.
  Size SizeAt(const TraceNode& node, std::uint64_t shape) {
    const Trace* trace = node.owner.load(std::memory_order_acquire);
    if (shape == 0 || trace == nullptr ||
        trace->length < node.depth + 1 + policy::kShortestReturn) {
      return Size::kOther;
    }
    Sizes& sizes = sizes_at[node.id];
    if (std::exchange(sizes.last, shape) == shape) return Size::kOther;
    if (CameBefore(node.id, shape)) return Size::kBack;
    return ++sizes.count <= policy::kFreeSizes ? Size::kFree : Size::kOther;
  }
  // True if one more path of `trace` pays whose sizes have come back: they will
  // again.
  static bool IsWorthIt(const Trace& trace) {
    return trace.length >= policy::kShortestReturn &&
           (trace.IsWorthMorePaths() ||
            trace.runs_of_more.load(std::memory_order_relaxed) >=
               policy::kRunsOfEachReturn *
                   trace.more_paths.load(std::memory_order_relaxed));
  }

  // Note [Captures in vain] in record.cpp.
  void CountRun() {
    if (runs < policy::kCountedRuns) ++runs;
  }
  void CountTrace() {
    if (++new_traces < policy::kCountedTraces) return;
    new_traces /= 2;
    runs /= 2;
  }
  // A capture of `trace` has ended when so many ops had been called.
  void RecordCaptureEnd(const Trace& trace, OpId first_op, bool is_new_path,
                        bool is_new_trace, std::int64_t seen) {
    if (is_new_path) ++paths;
    if (is_rest && !is_new_trace) rests.erase(first_op);
    const bool is_part = is_new_path &&
                         trace.is_part.load(std::memory_order_relaxed) &&
                         ++part_paths <= policy::kFreePartPaths;
    if (is_new_trace || is_part) found_at = seen;
  }
  bool IsWorthMoreTraces() const {
    return new_traces < policy::kTriedTraces ||
           runs >= policy::kRunsOfEachTrace * new_traces;
  }

  // Note [Named regions] in region_edge.cpp. The next op is the first one
  // behind an edge; `seen`: ops that have been called.
  void BeginBody(std::int64_t seen) {
    due = true;
    body_from = edge_at = seen;
  }
  // A run has ended: the body may go on behind it.
  void BeginRest(std::int64_t seen) {
    if (edge_at < 0 || due ||
        seen - edge_at > std::int64_t{policy::kOuterLoopRun}) {
      return;
    }
    due = true;
    body_from = seen;
  }

  // No branch points are learnt at this op.
  void LearnNothing() {
    due = false;
    next = BranchFinder::Next::kUnknown;
  }
};

}  // namespace tjit::runtime

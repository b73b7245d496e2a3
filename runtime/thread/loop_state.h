// What a thread knows of its loops beside the period that holds: the branch
// points of its stream, and how the present capture is to end. Thread: belongs
// to one ThreadState. Tested by: tests/runtime/thread/engagement_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "recorder/backoff.h"
#include "recorder/branch_finder.h"
#include "recorder/profile.h"
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
  Backoff region_captures{policy::kMostRegionFailures};

  // The capture of a period: iterations of so many ops, and how often they had
  // come when it was found.
  std::uint32_t period = 0;
  std::uint32_t sightings = 0;
  bool varies = false;  // its trip count
  // Of late: new traces, and runs of traces to their end.
  std::uint32_t new_traces = 0;
  std::uint32_t runs = 0;
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

  // Note [Captures in vain] in record.cpp.
  void CountRun() {
    if (runs < policy::kCountedRuns) ++runs;
  }
  void CountTrace() {
    if (++new_traces < policy::kCountedTraces) return;
    new_traces /= 2;
    runs /= 2;
  }
  bool IsWorthMoreTraces() const {
    return new_traces < policy::kTriedTraces ||
           runs >= policy::kRunsOfEachTrace * new_traces;
  }

  // No branch points are learnt at this op.
  void LearnNothing() {
    due = false;
    next = BranchFinder::Next::kUnknown;
  }
};

}  // namespace tjit::runtime

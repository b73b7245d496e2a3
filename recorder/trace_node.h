// Traces and the nodes of their trie, without the store that owns both (trace.h
// has the whole picture).
//
// Threads: atomics are read and counted by any thread; all else is written
// before a node is published, or under the store's mutex.
// Tested by: tests/recorder/trace_test.cpp
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "recorder/op_record.h"
#include "recorder/run_times.h"
#include "recorder/trace_key.h"
#include "recorder/trace_trial.h"
#include "support/bail.h"
#include "support/policy.h"

namespace tjit {

inline constexpr std::uint32_t kMaxTraceSteps = policy::kMaxTraceSteps;

struct TraceNode;

struct Trace {
  TraceKey key;
  std::uint32_t id = 0;
  std::uint32_t length = 0;          // steps
  // Paths of it but the first one, sizes most of them, and their runs. Both
  // are halved now and then: what was long ago counts less.
  std::atomic<std::int64_t> more_paths{0};
  std::atomic<std::int64_t> runs_of_more{0};
  std::atomic<const TraceNode*> first_end{nullptr};
  bool starts_at_boundary = false;   // entered only after a sync or mark_step
  std::atomic<std::int64_t> sightings{0};
  std::uint64_t sighted_at = 0;      // TraceStore's clock, of the last one
  std::atomic<bool> hot{false};
  std::atomic<bool> known{false};    // hot because a profile says so
  // Code of one of its segments was measured last, and paid.
  std::atomic<bool> has_code{false};
  std::atomic<std::int64_t> entries{0};
  std::atomic<std::int64_t> completions{0};
  // Penalty of LuaJIT's kind: `skip` more entries are let pass.
  std::atomic<std::int64_t> exits{0};  // counted by Penalize()
  std::atomic<std::int64_t> penalty{0};
  std::atomic<std::int64_t> skip{0};
  std::atomic<bool> blacklisted{false};
  std::atomic<std::int64_t> last_exit{0};  // BailReason

  // As `other`, whose threads may go on counting; not what names nodes.
  void CopyCounts(const Trace& other);

  // For `tjit explain`. Runs with deferred ops that left it, by BailReason: side
  // exits.
  std::array<std::atomic<std::int64_t>,
             static_cast<std::size_t>(BailReason::kCount)>
      left{};
  std::atomic<std::int64_t> eager_completions{0};  // of the completions
  // Eager runs that nobody followed and that turned out to be others.
  std::atomic<std::int64_t> unseen_left{0};
  std::atomic<bool> prepared{false};  // a replay was complete
  RunTimes eager_times, replay_times;
  RunTimes executed_times;  // of replays: what was pending ran
  TraceTrial trial;  // of the runs that begin at nodes that it owns

  // The clock is read for all of the first entries and for some of the rest.
  static bool IsMeasured(std::int64_t entry) {
    return entry < 64 || entry % 16 == 0;
  }
  // True if one more of its paths will probably pay for what it takes: as long
  // as six to ten runs save. A few are tried, and what comes behind them where
  // these stayed.
  bool IsWorthMorePaths() const {
    const std::int64_t known = more_paths.load(std::memory_order_relaxed);
    return known < policy::kTriedPaths ||
           runs_of_more.load(std::memory_order_relaxed) >=
               policy::kRunsOfEachPath * known;
  }
  // REQUIRES: the store's mutex is held.
  void RecordPath(const TraceNode* end) {
    if (first_end.load(std::memory_order_relaxed) == nullptr) {
      first_end.store(end, std::memory_order_relaxed);
    } else if (more_paths.fetch_add(1, std::memory_order_relaxed) + 1 >=
               policy::kCountedPaths) {
      more_paths.store(policy::kCountedPaths / 2, std::memory_order_relaxed);
      runs_of_more.store(runs_of_more.load(std::memory_order_relaxed) / 2,
                         std::memory_order_relaxed);
    }
  }
  void RecordTime(bool replayed, std::uint64_t ns) {
    // The first replay prepares the segment.
    if (replayed && !prepared.exchange(true, std::memory_order_relaxed)) return;
    (replayed ? replay_times : eager_times).Add(ns);
  }
};

// What the runtime keeps at a node beside what was recorded.
struct NodeExtra {
  virtual ~NodeExtra() = default;
};

struct alignas(64) TraceNode {
  TraceNode() = default;
  ~TraceNode() { delete extra.load(std::memory_order_relaxed); }
  TraceNode(const TraceNode&) = delete;
  TraceNode& operator=(const TraceNode&) = delete;

  // What is read of each step that is followed, in one line of the cache.
  std::atomic<TraceNode*> likely{nullptr};  // child taken last
  std::atomic<NodeExtra*> extra{nullptr};   // owned; set once
  // Results, by bit: dead when a segment ran, alive in some run.
  std::atomic<std::uint32_t> died{0};
  std::atomic<std::uint32_t> lived{0};
  std::uint32_t depth = 0;         // steps before this one
  std::uint32_t scalar_begin = 0;  // scalars of the steps before this one
  // Slots first used by this step: [slot_begin, slot_begin + new_slots.size()).
  std::uint32_t slot_begin = 0;
  std::uint32_t id = 0;          // of the process; its copies have it, too
  std::atomic<bool> hot{false};  // on a path of a hot trace

  TraceNode* parent = nullptr;
  StepRecord step;
  std::vector<SlotRecord> new_slots;
  std::atomic<TraceNode*> first_child{nullptr};
  std::atomic<TraceNode*> next_sibling{nullptr};
  std::atomic<TraceNode*> next_root{nullptr};  // first steps: same bucket
  std::atomic<Trace*> ends{nullptr};        // a trace is complete here
  std::atomic<Trace*> owner{nullptr};       // first trace through this node
  // Runs that ended here, and the store's clock at the last of them.
  std::atomic<std::uint32_t> uses{0};
  std::atomic<std::uint64_t> used_at{0};
  std::shared_ptr<void> payload;            // the runtime's captured call

  // True if result `i` was dead in every run so far.
  bool Dies(std::uint32_t i) const {
    return i < 32 && ((died.load(std::memory_order_relaxed) &
                       ~lived.load(std::memory_order_relaxed)) >>
                      i & 1) != 0;
  }
  std::uint32_t slot_end() const {
    return slot_begin + static_cast<std::uint32_t>(new_slots.size());
  }
};

// One step to be added.
struct NewStep {
  StepRecord step;
  std::vector<SlotRecord> new_slots;
  std::shared_ptr<void> payload;
};

}  // namespace tjit

// Traces and the nodes of their trie, without the store that owns both (trace.h
// has the whole picture).
//
// Threads: any thread reads atomics; who writes one, and when, stands at each.
// A copy of a store is written by the thread that makes it, as long as nobody
// else knows the copy. All else is written before a node is published, or under
// the store's mutex.
// Tested by: tests/recorder/trace_test.cpp
#pragma once

#include <algorithm>
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
  std::uint32_t length = 0;  // steps
  // Paths of it but the first one, sizes most of them, and their runs. Both
  // are halved now and then: what was long ago counts less.
  // Written by RecordPath() for a path that is new, and by
  // ForgetRunsWithoutCode().
  std::atomic<std::int64_t> more_paths{0};
  // Added to by any thread at the end of such a run; halved by RecordPath(),
  // cleared by ForgetRunsWithoutCode().
  std::atomic<std::int64_t> runs_of_more{0};
  // Written once, by RecordPath() for the first path.
  std::atomic<const TraceNode*> first_end{nullptr};
  bool starts_at_boundary = false;  // entered only after a sync or mark_step
  // Written by CountSighting() alone: under the store's mutex until it is hot,
  // added to by any thread from then on.
  std::atomic<std::int64_t> sightings{0};
  std::uint64_t sighted_at = 0;  // TraceStore's clock, of the last one
  // Set once, by CountSighting() under the store's mutex.
  std::atomic<bool> hot{false};
  // Hot because a profile says so. Set by any thread that promotes it.
  std::atomic<bool> known{false};
  // Code of one of its segments was measured last, and paid. Written by any
  // thread at the end of a trial of code; the last one holds.
  std::atomic<bool> has_code{false};
  // Code of one was asked for, and it is not known yet whether it pays: sizes
  // are not judged by what they save without it. Set by any thread that asks,
  // cleared by any that knows.
  std::atomic<bool> awaits_code{false};
  // Paths that were recorded meanwhile. Written by RecordPath() alone.
  std::atomic<std::int64_t> awaiting_paths{0};
  // Note [Sizes that vary on their own] in size_cuts.h: it is recorded as parts
  // from now on; it is such a part; another part comes behind it. Set by any
  // thread that cuts a trace.
  std::atomic<bool> is_cut{false}, is_part{false}, ends_at_cut{false};
  // A part that is one iteration of a loop: Note [Loops in other sizes each
  // time] there. Set by any thread that cuts a trace.
  std::atomic<bool> is_iteration{false};
  // Set by the thread that writes `cuts`: of several that cut it the first.
  std::atomic<bool> has_cuts{false};
  // Of one that is cut: the steps that begin its parts but the first one, in
  // order. Written once, before is_cut is set.
  std::vector<std::uint32_t> cuts;
  // Added to by any thread that begins a run of it.
  std::atomic<std::int64_t> entries{0};
  // Added to by any thread at the end of a complete run.
  std::atomic<std::int64_t> completions{0};
  // Added to by Penalize(), on any thread.
  std::atomic<std::int64_t> exits{0};
  // Penalty of LuaJIT's kind: `skip` more entries are let pass. Any thread
  // loads and stores both, so one exit or entry may be lost to another thread.
  // Written by Penalize(), Blacklist() and Reward().
  std::atomic<std::int64_t> penalty{0};
  // Raised by Penalize() and Blacklist(), lowered by ShouldSkip().
  std::atomic<std::int64_t> skip{0};
  // Set by Blacklist(), cleared by the ShouldSkip() that lets the last pass.
  std::atomic<bool> blacklisted{false};
  // BailReason. Written by Penalize() and Blacklist(); the last one holds.
  std::atomic<std::int64_t> last_exit{0};

  // As `other`, whose threads may go on counting; not what names nodes.
  // REQUIRES: nobody else knows this trace.
  void CopyCounts(const Trace& other);

  // For `tjit explain`. Runs with deferred ops that left it, by BailReason:
  // side exits. Added to by any thread whose run leaves it.
  std::array<std::atomic<std::int64_t>,
             static_cast<std::size_t>(BailReason::kCount)>
      left{};
  // Of the completions. Added to by any thread after `completions`.
  std::atomic<std::int64_t> eager_completions{0};
  // Eager runs that nobody followed and that turned out to be others. Added to
  // by any thread at the end of such a run.
  std::atomic<std::int64_t> unseen_left{0};
  // Of one of its paths, as far as it is known. Written by RecordTime().
  std::atomic<std::int64_t> runs_to_win_back{policy::kRunsOfEachPath};
  // A replay was complete. Set once, by RecordTime() of the first one.
  std::atomic<bool> prepared{false};
  // Any thread adds the time of a measured run at its end.
  RunTimes eager_times, replay_times;
  RunTimes late_times;  // of replays, with code if it has some that pays
  std::atomic<bool> has_forgotten{false};  // ForgetRunsWithoutCode() was called
  RunTimes executed_times;  // of replays: what was pending ran
  // Of the runs that begin at nodes that it owns: any thread that begins one.
  TraceTrial trial;

  // A part of it ends behind so many steps.
  bool IsCutBehind(std::uint32_t steps) const {
    return is_cut.load(std::memory_order_acquire) &&
           std::binary_search(cuts.begin(), cuts.end(), steps);
  }
  // The clock is read for all of the first entries and for some of the rest.
  static bool IsMeasured(std::int64_t entry) {
    return entry < 64 || entry % 16 == 0;
  }
  // True if one more of its paths will probably pay for what it takes. A few
  // are tried, and what comes behind them where these stayed.
  bool IsWorthMorePaths() const {
    const std::int64_t known = more_paths.load(std::memory_order_relaxed);
    if (known < policy::kTriedPaths) return true;
    const std::int64_t runs = runs_of_more.load(std::memory_order_relaxed);
    return runs >= policy::kRunsOfEachPath * known ||
           (runs >= policy::kFewestRunsOfEachPath * known &&
            runs >= runs_to_win_back.load(std::memory_order_relaxed) * known);
  }
  // What replaying it takes less than an eager run; 0: that is not known.
  std::uint64_t NsSavedByRun() const {
    const std::uint64_t eager = eager_times.Median();
    const std::uint64_t replay = late_times.Median();
    return replay == 0 || replay >= eager ? 0 : eager - replay;
  }
  // A path runs eagerly once or twice, and preparing it takes time, more for
  // each step: so many replays win that back.
  std::int64_t RunsToWinBack() const {
    const std::uint64_t saved = NsSavedByRun();
    if (saved == 0) return policy::kRunsOfEachPath;
    const std::uint64_t cost = policy::kEagerRunsOfPath * eager_times.Median() +
                               policy::kNsOfPath +
                               policy::kNsOfStepOfPath * length;
    const std::uint64_t runs = (cost + saved - 1) / saved;
    return static_cast<std::int64_t>(std::min<std::uint64_t>(
        runs, static_cast<std::uint64_t>(policy::kRunsOfEachPath)));
  }
  // Its code has turned out to pay: what runs took before says nothing of those
  // to come, so a few paths are tried anew. Once; any thread.
  void ForgetRunsWithoutCode() {
    if (has_forgotten.exchange(true, std::memory_order_relaxed)) return;
    late_times.Clear();
    more_paths.store(0, std::memory_order_relaxed);
    runs_of_more.store(0, std::memory_order_relaxed);
  }
  // REQUIRES: the store's mutex is held.
  void RecordPath(const TraceNode* end) {
    if (first_end.load(std::memory_order_relaxed) == nullptr) {
      first_end.store(end, std::memory_order_relaxed);
    } else if (awaits_code.load(std::memory_order_relaxed) &&
               awaiting_paths.load(std::memory_order_relaxed) <
                   policy::kPathsOfAwaitedCode) {
      awaiting_paths.fetch_add(1, std::memory_order_relaxed);
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
    if (replayed) late_times.Add(ns);
    runs_to_win_back.store(RunsToWinBack(), std::memory_order_relaxed);
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
  // Child taken last. Written by any thread whose run goes on to another child.
  std::atomic<TraceNode*> likely{nullptr};
  // Owned. Set once, by the first of the threads that need it; the others take
  // what that one made.
  std::atomic<NodeExtra*> extra{nullptr};
  // Results, by bit: dead when a segment ran, alive in some run. Any thread
  // adds bits once its segment ran; nobody takes one away.
  std::atomic<std::uint32_t> died{0};
  std::atomic<std::uint32_t> lived{0};
  std::uint32_t depth = 0;         // steps before this one
  std::uint32_t scalar_begin = 0;  // scalars of the steps before this one
  // Slots first used by this step: [slot_begin, slot_begin + new_slots.size()).
  std::uint32_t slot_begin = 0;
  // On a path of a hot trace. Set once, under the store's mutex.
  std::atomic<bool> hot{false};

  TraceNode* parent = nullptr;
  StepRecord step;
  std::vector<SlotRecord> new_slots;
  // Written under the store's mutex when a child is published.
  std::atomic<TraceNode*> first_child{nullptr};
  // Both are written under the store's mutex, before a reader comes from them;
  // the first one also when a first step comes that is to be behind this one.
  std::atomic<TraceNode*> next_sibling{nullptr};
  std::atomic<TraceNode*> next_of_shape{nullptr};  // in the same bucket
  // A trace is complete here. Set once, under the store's mutex.
  std::atomic<Trace*> ends{nullptr};
  // First trace through this node. Set once, under the store's mutex.
  std::atomic<Trace*> owner{nullptr};
  // Runs that ended here, and the store's clock at the last of them. Written by
  // Insert() for a new end, then by RecordUse() on any thread, which loads and
  // stores: one run may be lost to another thread.
  std::atomic<std::uint32_t> uses{0};
  std::uint32_t id = 0;  // of the process; its copies have it, too
  std::atomic<std::uint64_t> used_at{0};
  std::shared_ptr<void> payload;  // the runtime's captured call

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

// A store may have hundreds of thousands.
static_assert(sizeof(TraceNode) <= 256);

// One step to be added.
struct NewStep {
  StepRecord step;
  std::vector<SlotRecord> new_slots;
  std::shared_ptr<void> payload;
};

// The step of `node`, to be added to a store.
inline NewStep CopyOf(const TraceNode& node) {
  return {CopyOf(node.step), node.new_slots, node.payload};
}

}  // namespace tjit

// A promoted sequence of steps, and the trie of all of them.
//
// The trie holds exact steps (sizes included): a path from the top is one
// recorded run. A Trace is keyed without sizes; several paths (one for each
// combination of sizes) may end in one Trace, and they share its hot count.
//
//   top -> mm[32,8] -> relu -> sum          ends trace 1
//       -> mm[ 5,8] -> relu -> sum          ends trace 1 (another batch size)
//                           -> mean         ends trace 2 (a sibling)
//
// Invariants: (1) Steps never change once published; only counters, links to
// children and `runtime` marks of scalars do. (2) Nodes are freed only with
// the whole store. (3) Bounded: kMaxTraceSteps per path, StoreLimits per store.
// A store that is nearly full is replaced by a copy of what was used most
// (CopyMostUsed()).
// Threads: readers follow atomic links without a lock; writers hold mutex_.
// Tested by: tests/recorder/trace_test.cpp, trace_eviction_test.cpp
// Source: LuaJIT lj_trace.c (hot counts, penalties, side traces).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "recorder/child_index.h"
#include "recorder/op_record.h"
#include "recorder/trace_key.h"
#include "recorder/trace_node.h"
#include "support/bail.h"
#include "support/mutex.h"
#include "support/policy.h"

namespace tjit {

// What a store may hold. `bytes`: of the records, about.
struct StoreLimits {
  std::uint32_t nodes = 400000;
  std::uint64_t bytes = std::uint64_t{32} << 20;
};

class TraceStore {
 public:
  static constexpr std::uint64_t kHalfLife = policy::kUseHalfLife;

  explicit TraceStore(StoreLimits limits = {});
  ~TraceStore();
  TraceStore(const TraceStore&) = delete;
  TraceStore& operator=(const TraceStore&) = delete;

  // What it holds already stays until it WantsEviction().
  void SetLimits(StoreLimits limits);
  StoreLimits limits() const {
    return {max_nodes_.load(std::memory_order_relaxed),
            max_bytes_.load(std::memory_order_relaxed)};
  }

  // The node above all first steps; its step is empty.
  TraceNode* top() { return top_; }

  const ChildIndex& children() const { return children_; }

  // Adds the path `from`, steps... and ends a trace there: the one with the
  // same key if there is one, else a new one. Steps equal to existing children
  // are shared; *is_new: no such path was there; *end: its last node. Returns null with *why set if
  // the store or the path is full.
  Trace* Insert(TraceNode* from, std::vector<NewStep> steps,
                bool starts_at_boundary, BailReason* why,
                bool* is_new = nullptr, TraceNode** end = nullptr);

  // Note [Sizes that vary on their own] in size_cuts.h: `trace` is a part, and
  // another one comes behind it but if it is the last.
  void MarkPart(Trace* trace, bool is_last);

  // The part that these steps are, from top() on, if another one comes behind.
  Trace* FindPart(const std::vector<NewStep>& steps);

  // The trace that the path from..., steps... would end, if there is one.
  Trace* Find(TraceNode* from, const std::vector<NewStep>& steps);

  // Counts one complete sighting; makes the trace hot at `threshold` and
  // marks the nodes of all its paths. Returns true if it became hot now. Until
  // it is hot the count is halved for every kHalfLife sightings of any trace
  // that came in between: what is rare does not add up.
  bool CountSighting(Trace* trace, std::int64_t threshold);

  // A run ended at `node`.
  void RecordUse(TraceNode* node);

  // True if it has leftovers, or is nearly full and what it holds has been run
  // often enough to make room for more: else the limits are too small for the
  // program, and what came first stays. See Note [Eviction].
  // `had_no_room`: a path did not fit.
  bool WantsEviction(bool had_no_room) const;
  // True if there is much that was recorded whole before a trace was cut.
  bool HasLeftovers() const;
  // Why a copy has fewer paths.
  struct Dropped {
    bool leftovers = false;
    bool by_limits = false;
  };
  // A store with the paths that were used most, lately more than long ago, up
  // to half the limits; the same ids. Other threads may go on with this one,
  // which takes nothing new from then on (limits of 0). Null if `stop` was set.
  std::unique_ptr<TraceStore> CopyMostUsed(const std::atomic<bool>& stop,
                                           Dropped* dropped = nullptr)
      ABSL_NO_THREAD_SAFETY_ANALYSIS;  // nothing else knows the copy
  // The same number for a store and its copies.
  std::uint64_t lineage() const { return lineage_; }
  // The node of that id, null if it was left out.
  TraceNode* NodeOf(std::uint32_t id) const;

  // Called when a run left the trace; backs off exponentially, blacklists at
  // the end; returns true if it is blacklisted now. A complete run pays half of
  // the penalty back.
  bool Penalize(Trace* trace, BailReason why);
  void Reward(Trace* trace);
  // The trace gave wrong results: it is not entered again for very long.
  void Blacklist(Trace* trace, BailReason why);
  // True if this entry is to be let pass; pays one unit of back-off.
  bool ShouldSkip(Trace* trace);

  void LockForFork() { mutex_.LockForFork(); }
  void UnlockAfterFork() { mutex_.UnlockAfterFork(); }

  std::uint32_t node_count() const;  // without top()
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Nodes of all stores of the process, those of top() too (tests).
  static std::int64_t LiveNodes();
  std::vector<const Trace*> traces() const;
  // The path of one end node of `trace` (the first one recorded).
  std::vector<const TraceNode*> PathOf(const Trace* trace) const;
  // All of them, in the order in which they were recorded, or the last `most`.
  std::vector<std::vector<const TraceNode*>> PathsOf(
      const Trace* trace, std::size_t most = SIZE_MAX) const;

 private:
  struct Chosen;

  TraceStore(StoreLimits limits, std::uint64_t lineage);
  // Of a node, about.
  static std::uint64_t BytesOf(const StepRecord& step,
                               const std::vector<SlotRecord>& new_slots);
  TraceNode* NewNode(TraceNode* parent, NewStep step, std::uint32_t id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the end node, null if the store is full; *branch is the first new
  // node, not yet linked to its parent.
  TraceNode* AddPath(TraceNode* from, std::vector<NewStep> steps,
                     TraceNode** branch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Trace* FindOrMakeTrace(TraceKey key, std::uint32_t length,
                         bool starts_at_boundary)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkHot(Trace* trace) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of an end of `trace` that is published.
  void AddEnd(Trace* trace, TraceNode* end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Chosen ChooseMostUsed(const std::vector<const TraceNode*>& all) const;
  std::vector<std::pair<Trace*, const TraceNode*>> CopyTraces(
      const TraceStore& from, const Chosen& chosen)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_, from.mutex_);
  Trace* CopyTrace(const Trace& trace) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<std::uint32_t> max_nodes_;
  std::atomic<std::uint64_t> max_bytes_;
  const std::uint64_t lineage_;
  mutable Mutex mutex_;  // of who writes
  TraceNode* top_;
  ChildIndex children_;  // its Add() is for who writes
  std::atomic<std::uint32_t> node_count_{0};
  std::atomic<std::uint64_t> bytes_{0};
  // Lengths of parts that another one comes behind.
  absl::flat_hash_set<std::size_t> part_lengths_ ABSL_GUARDED_BY(mutex_);
  // Set by any thread at the first cut: clock_ then, and one.
  std::atomic<std::uint64_t> cut_at_{0};
  bool is_trimmed_ = false;  // a copy without leftovers
  // Steps of runs that ended at nodes that came since the beginning, and what
  // was there then. Threads may lose some of the first to one another.
  std::atomic<std::uint64_t> steps_run_{0};
  std::uint32_t first_nodes_ = 0;
  std::uint32_t first_last_id_ = 0;  // of these nodes
  // Sightings of all traces. Threads may lose some to one another: it only
  // says how long ago something was, about.
  std::atomic<std::uint64_t> clock_{0};
  // By id.
  std::vector<std::unique_ptr<TraceNode>> nodes_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Trace>> traces_ ABSL_GUARDED_BY(mutex_);
  std::uint32_t last_trace_id_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::uint64_t, std::vector<Trace*>> by_hash_
      ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const Trace*, std::vector<TraceNode*>> ends_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tjit

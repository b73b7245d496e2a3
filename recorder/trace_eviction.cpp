// What a store that is nearly full keeps.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "recorder/trace.h"
#include "support/policy.h"

namespace tjit {
namespace {

template <class T>
void Copy(const std::atomic<T>& from, std::atomic<T>* to) {
  to->store(from.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

// False, and nothing is locked, if `stop` was set meanwhile: who waits for this
// thread may hold the mutex.
bool LockUnless(const std::atomic<bool>& stop, std::unique_lock<Mutex>* lock) {
  while (!lock->try_lock()) {
    if (stop.load()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

// Of a store with cuts: neither replayed, nor a part, nor seen again.
bool IsLeftover(const Trace& trace) {
  return !trace.hot.load(std::memory_order_acquire) &&
         !trace.ends_at_cut.load(std::memory_order_relaxed) &&
         (trace.is_cut.load(std::memory_order_relaxed) ||
          trace.sightings.load(std::memory_order_relaxed) <= 2);
}

}  // namespace

struct TraceStore::Chosen {
  std::vector<const TraceNode*> nodes;  // by id
  absl::flat_hash_set<const TraceNode*> all;
  bool has_no_leftovers = false;
  Dropped dropped;
};

void Trace::CopyCounts(const Trace& other) {
  Copy(other.more_paths, &more_paths);
  Copy(other.runs_of_more, &runs_of_more);
  Copy(other.sightings, &sightings);
  sighted_at = other.sighted_at;
  Copy(other.hot, &hot);
  Copy(other.known, &known);
  Copy(other.has_code, &has_code);
  // One that is being cut just now is cut again.
  if (other.is_cut.load(std::memory_order_acquire)) {
    cuts = other.cuts;
    has_cuts.store(true, std::memory_order_relaxed);
    is_cut.store(true, std::memory_order_release);
  }
  Copy(other.is_part, &is_part);
  Copy(other.is_iteration, &is_iteration);
  Copy(other.ends_at_cut, &ends_at_cut);
  Copy(other.entries, &entries);
  Copy(other.completions, &completions);
  Copy(other.exits, &exits);
  Copy(other.penalty, &penalty);
  Copy(other.skip, &skip);
  Copy(other.blacklisted, &blacklisted);
  Copy(other.last_exit, &last_exit);
  for (std::size_t i = 0; i < left.size(); ++i) Copy(other.left[i], &left[i]);
  Copy(other.eager_completions, &eager_completions);
  Copy(other.unseen_left, &unseen_left);
  Copy(other.prepared, &prepared);
  Copy(other.awaits_code, &awaits_code);
  Copy(other.awaiting_paths, &awaiting_paths);
  Copy(other.runs_to_win_back, &runs_to_win_back);
  eager_times.CopyFrom(other.eager_times);
  replay_times.CopyFrom(other.replay_times);
  late_times.CopyFrom(other.late_times);
  Copy(other.has_forgotten, &has_forgotten);
  executed_times.CopyFrom(other.executed_times);
  trial.CopyFrom(other.trial);
}

// Note [Eviction]
// Nodes cannot be taken out of a store: any thread may stand on any of them. So
// a store that is 7/8 full is copied, but for what was used least; the copy
// takes its place, each thread goes over to it at its next op and takes along
// the segments that are still there. What no thread stands in any more is freed
// by the worker. From the copy on the old store is full for everybody: a trace
// that it took would be lost, and the copy would give its number again.
//
// What counts is how often runs ended at a node, halved for every kHalfLife
// runs of any trace since the last of them. A path is kept as a whole, so that
// each leaf ends a trace.
//
// A program that goes round through more than the limits hold would lose each
// path shortly before it comes again: recording and preparing one takes as long
// as several runs of it. So nothing is left out before what was added has been
// run kRunsBeforeEviction times, on average; until then what came first stays.
//
// What was recorded before a trace was cut (size_cuts.h) is whole sequences in
// sizes that do not come again. It goes soon, whether the store is full or not.
bool TraceStore::WantsEviction(bool had_no_room) const {
  if (HasLeftovers()) return true;
  const std::uint32_t nodes = node_count();
  const std::uint32_t added = nodes - first_nodes_;
  const StoreLimits most = limits();
  const bool is_nearly_full = nodes > most.nodes - most.nodes / 8 ||
                              bytes() > most.bytes - most.bytes / 8;
  return (is_nearly_full || had_no_room) && added >= nodes / 4 &&
         steps_run_.load(std::memory_order_relaxed) >=
             policy::kRunsBeforeEviction * added;
}

bool TraceStore::HasLeftovers() const {
  const std::uint64_t cut_at = cut_at_.load(std::memory_order_relaxed);
  return cut_at != 0 && !is_trimmed_ &&
         node_count() >= policy::kLeftoverSteps &&
         clock_.load(std::memory_order_relaxed) + 1 >=
             cut_at + policy::kLeftoverSightings;
}

void TraceStore::RecordUse(TraceNode* node) {
  const std::uint64_t now = clock_.load(std::memory_order_relaxed);
  const std::uint64_t halvings =
      (now - std::min(now, node->used_at.load(std::memory_order_relaxed))) /
      kHalfLife;
  const std::uint32_t uses = node->uses.load(std::memory_order_relaxed) >>
                             std::min<std::uint64_t>(halvings, 31);
  node->uses.store(std::min(uses + 1, policy::kMostUses),
                   std::memory_order_relaxed);
  node->used_at.store(now, std::memory_order_relaxed);
  if (node->id <= first_last_id_) return;
  // What saves more is won back in fewer runs.
  const Trace* const trace = node->ends.load(std::memory_order_acquire);
  const std::int64_t needed =
      trace == nullptr
          ? policy::kRunsOfEachPath
          : trace->runs_to_win_back.load(std::memory_order_relaxed);
  const auto steps = static_cast<std::uint64_t>(
      (node->depth + 1) * policy::kRunsOfEachPath / needed);
  steps_run_.store(steps_run_.load(std::memory_order_relaxed) + steps,
                   std::memory_order_relaxed);
}

// `all`: nodes that are published.
TraceStore::Chosen TraceStore::ChooseMostUsed(
    const std::vector<const TraceNode*>& all) const {
  struct Candidate {
    double uses = 0;
    std::uint64_t used_at = 0;
    const TraceNode* node = nullptr;
  };
  const std::uint64_t now = clock_.load(std::memory_order_relaxed);
  std::vector<Candidate> candidates;
  for (const TraceNode* node : all) {
    const std::uint32_t uses = node->uses.load(std::memory_order_relaxed);
    const bool ends = node->ends.load(std::memory_order_acquire) != nullptr;
    if (uses == 0 && !ends) continue;
    const std::uint64_t at = node->used_at.load(std::memory_order_relaxed);
    const auto age = static_cast<double>(now - std::min(now, at));
    candidates.push_back({uses * std::exp2(-age / kHalfLife), at, node});
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) {
              return std::tie(a.uses, a.used_at, a.node->id) >
                     std::tie(b.uses, b.used_at, b.node->id);
            });
  const StoreLimits most = limits();
  const bool trims = HasLeftovers();
  Chosen chosen;
  chosen.has_no_leftovers = trims || is_trimmed_;
  std::uint64_t bytes = 0;
  std::vector<const TraceNode*> path;
  for (const Candidate& candidate : candidates) {
    const TraceNode* n = candidate.node;
    while (n->ends.load(std::memory_order_acquire) == nullptr) {
      n = n->first_child.load(std::memory_order_acquire);
    }
    if (trims && IsLeftover(*n->ends.load(std::memory_order_acquire))) {
      chosen.dropped.leftovers = true;
      continue;
    }
    path.clear();
    std::uint64_t path_bytes = 0;
    for (; n != top_ && !chosen.all.contains(n); n = n->parent) {
      path.push_back(n);
      path_bytes += BytesOf(n->step, n->new_slots);
    }
    // The first one may take more than half. Where only leftovers go, all
    // others stay.
    const unsigned part = chosen.nodes.empty() || trims ? 1 : 2;
    if (chosen.nodes.size() + path.size() > most.nodes / part ||
        bytes + path_bytes > most.bytes / part) {
      chosen.dropped.by_limits = true;
      continue;
    }
    bytes += path_bytes;
    chosen.nodes.insert(chosen.nodes.end(), path.begin(), path.end());
    chosen.all.insert(path.begin(), path.end());
  }
  std::sort(
      chosen.nodes.begin(), chosen.nodes.end(),
      [](const TraceNode* a, const TraceNode* b) { return a->id < b->id; });
  return chosen;
}

std::unique_ptr<TraceStore> TraceStore::CopyMostUsed(
    const std::atomic<bool>& stop, Dropped* dropped) {
  std::unique_lock<Mutex> lock(mutex_, std::defer_lock);
  if (!LockUnless(stop, &lock)) return nullptr;
  std::vector<const TraceNode*> all;
  all.reserve(nodes_.size());
  for (const auto& node : nodes_) all.push_back(node.get());
  lock.unlock();
  // Nothing else knows the copy, and what is read of nodes does not change:
  // nobody waits long.
  const Chosen chosen = ChooseMostUsed(all);
  if (dropped != nullptr) *dropped = chosen.dropped;
  std::unique_ptr<TraceStore> made(new TraceStore(limits(), lineage_));
  absl::flat_hash_map<const TraceNode*, TraceNode*> copies;
  copies.reserve(chosen.nodes.size() + 1);
  copies.emplace(top_, made->top_);
  for (const TraceNode* node : chosen.nodes) {
    if (stop.load(std::memory_order_relaxed)) return nullptr;
    TraceNode* const copy =
        made->NewNode(copies.at(node->parent), CopyOf(*node), node->id);
    Copy(node->died, &copy->died);
    Copy(node->lived, &copy->lived);
    Copy(node->uses, &copy->uses);
    Copy(node->used_at, &copy->used_at);
    made->children_.Add(copy);
    copies.emplace(node, copy);
  }
  for (const auto& [node, copy] : copies) {
    const auto likely =
        copies.find(node->likely.load(std::memory_order_relaxed));
    if (likely != copies.end()) copy->likely.store(likely->second);
  }
  if (!LockUnless(stop, &lock)) return nullptr;
  auto ends = made->CopyTraces(*this, chosen);
  made->is_trimmed_ = chosen.has_no_leftovers;
  Copy(cut_at_, &made->cut_at_);
  // A trace that came now would be lost, and its number be given twice.
  SetLimits({.nodes = 0, .bytes = 0});
  lock.unlock();
  std::sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) {
    return a.second->id < b.second->id;
  });
  for (const auto& [trace, end] : ends) {
    TraceNode* const copy = copies.at(end);
    if (trace->first_end.load() == nullptr) trace->first_end.store(copy);
    made->AddEnd(trace, copy);
  }
  return made;
}

// The traces that have one of the chosen ends, and these ends, of `from`, in
// order. REQUIRES: the mutex of `from` is held.
std::vector<std::pair<Trace*, const TraceNode*>> TraceStore::CopyTraces(
    const TraceStore& from, const Chosen& chosen) {
  std::vector<std::pair<Trace*, const TraceNode*>> ends;
  for (const auto& trace : from.traces_) {
    const auto known = from.ends_.find(trace.get());
    if (known == from.ends_.end()) continue;
    Trace* made = nullptr;
    for (const TraceNode* end : known->second) {
      if (!chosen.all.contains(end)) continue;
      if (made == nullptr) made = CopyTrace(*trace);
      ends.emplace_back(made, end);
    }
  }
  last_trace_id_ = from.last_trace_id_;
  Copy(from.clock_, &clock_);
  first_nodes_ = node_count();
  first_last_id_ = nodes_.back()->id;
  return ends;
}

Trace* TraceStore::CopyTrace(const Trace& trace) {
  traces_.push_back(std::make_unique<Trace>());
  Trace* const made = traces_.back().get();
  made->key = trace.key;
  made->id = trace.id;
  made->length = trace.length;
  made->starts_at_boundary = trace.starts_at_boundary;
  made->CopyCounts(trace);
  if (trace.ends_at_cut.load(std::memory_order_relaxed)) {
    part_lengths_.insert(trace.length);
  }
  by_hash_[made->key.hash].push_back(made);
  return made;
}

TraceNode* TraceStore::NodeOf(std::uint32_t id) const {
  const MutexLock lock(mutex_);
  const auto found = std::lower_bound(
      nodes_.begin(), nodes_.end(), id,
      [](const auto& node, std::uint32_t i) { return node->id < i; });
  const bool is_there = found != nodes_.end() && (*found)->id == id;
  return is_there ? found->get() : nullptr;
}

}  // namespace tjit

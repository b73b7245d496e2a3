#include "recorder/trace.h"

#include <algorithm>
#include <utility>

#include "recorder/sightings.h"
#include "recorder/step_shape.h"
#include "recorder/trace_parse.h"
#include "recorder/trace_text.h"
#include "recorder/trace_verifier.h"
#include "support/assert.h"
#include "support/log.h"
#include "support/policy.h"

namespace tjit {
namespace {

bool SameScalar(const ScalarRecord& a, const ScalarRecord& b) {
  if (a.may_vary != b.may_vary || a.value_class != b.value_class) return false;
  return a.may_vary ? a.value.type == b.value.type : a.value.SameBits(b.value);
}

bool SameSlot(const SlotRecord& a, const SlotRecord& b) {
  return a.bytes == b.bytes && a.born_step == b.born_step &&
         a.place_of == b.place_of;
}

bool SameStep(const StepRecord& a, const StepRecord& b) {
  return a.op == b.op && a.kind == b.kind && a.context == b.context &&
         a.statics == b.statics && SameList(a.args, b.args, SameArg) &&
         SameList(a.scalars, b.scalars, SameScalar) &&
         SameList(a.results, b.results, SameResult);
}

bool IsStep(const TraceNode& node, const NewStep& step) {
  return SameStep(node.step, step.step) &&
         SameList(node.new_slots, step.new_slots, SameSlot);
}

// A scalar that may vary and was seen with another value is a run-time
// argument from now on.
void MergeScalars(TraceNode* node, const StepRecord& seen) {
  for (std::size_t i = 0; i < seen.scalars.size(); ++i) {
    ScalarRecord& known = node->step.scalars[i];
    const bool differs = !known.value.SameBits(seen.scalars[i].value);
    if (differs || seen.scalars[i].IsRuntime()) known.MarkRuntime();
  }
}

// A scalar that differs between two sizes, or within one, is a run-time
// argument in both: one kernel serves the sizes to come. Both are last steps of
// paths of one trace, whose other scalars are the same.
void MergeScalarsOfSizes(TraceNode* known, TraceNode* node) {
  for (; node->parent != nullptr && known != node;
       node = node->parent, known = known->parent) {
    MergeScalars(node, known->step);
    MergeScalars(known, node->step);
  }
}

// From the first step down to `end`.
std::vector<TraceNode*> PathTo(TraceNode* end) {
  std::vector<TraceNode*> path;
  for (TraceNode* n = end; n->parent != nullptr; n = n->parent) {
    path.push_back(n);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

TraceKey KeyOf(const std::vector<TraceNode*>& path,
               const std::vector<NewStep>& steps) {
  std::vector<const StepRecord*> records;
  records.reserve(path.size() + steps.size());
  for (const TraceNode* n : path) records.push_back(&n->step);
  for (const NewStep& s : steps) records.push_back(&s.step);
  return MakeTraceKey(records);
}

Trace* FindIn(
    const absl::flat_hash_map<std::uint64_t, std::vector<Trace*>>& by_hash,
    const TraceKey& key) {
  const auto same_hash = by_hash.find(key.hash);
  if (same_hash == by_hash.end()) return nullptr;
  for (Trace* trace : same_hash->second) {
    if (trace->key == key) return trace;
  }
  return nullptr;
}

// Debug builds: a path that breaks a rule is a bug of whoever recorded it.
[[maybe_unused]] bool IsSound(const std::vector<TraceNode*>& path) {
  const std::vector<std::string> violations =
      VerifyPath(std::vector<const TraceNode*>(path.begin(), path.end()));
  for (const std::string& violation : violations) {
    LogLine(LogLevel::kError, "tjit: a recorded path is broken: " + violation);
  }
  return violations.empty();
}

// Debug builds: the text of every path leads back to the same text.
[[maybe_unused]] bool ParsesBack(const std::vector<TraceNode*>& path) {
  const std::vector<const TraceNode*> nodes(path.begin(), path.end());
  const std::string text = ToText(StepsOf(nodes), SlotsOf(nodes));
  ParsedTrace parsed;
  std::string error;
  if (ParseTrace(text, &parsed, &error) && ToText(parsed) == text) return true;
  LogLine(LogLevel::kError,
          "tjit: a path does not parse back: " + error + "\n" + text);
  return false;
}

// Of the process: a segment of one store is found again in its copy by the id
// of its last node.
std::atomic<std::uint64_t> g_last_node_id{0};
constexpr std::uint64_t kMaxNodeId = 0xffffffff;
std::atomic<std::uint64_t> g_last_lineage{0};
std::atomic<std::int64_t> g_live_nodes{0};

// Between 0 and 1/4 of `range`: keeps two traces that make each other fail
// from coming back together. The same at every run: seeded by what happened.
std::int64_t Jitter(const Trace& trace, std::int64_t exits,
                    std::int64_t range) {
  std::uint64_t x = 0x9E3779B97F4A7C15ull ^ (std::uint64_t{trace.id} << 32) ^
                    static_cast<std::uint64_t>(exits);
  for (int round = 0; round < 3; ++round) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  return static_cast<std::int64_t>(x % static_cast<std::uint64_t>(range / 4));
}

}  // namespace

TraceStore::TraceStore(StoreLimits limits)
    : TraceStore(limits, g_last_lineage.fetch_add(1) + 1) {}

TraceStore::TraceStore(StoreLimits limits, std::uint64_t lineage)
    : max_nodes_(limits.nodes), max_bytes_(limits.bytes), lineage_(lineage) {
  const MutexLock lock(mutex_);
  nodes_.push_back(std::make_unique<TraceNode>());
  top_ = nodes_.back().get();
  g_live_nodes.fetch_add(1);
}

TraceStore::~TraceStore() {
  g_live_nodes.fetch_sub(static_cast<std::int64_t>(nodes_.size()));
}

void TraceStore::SetLimits(StoreLimits limits) {
  max_nodes_.store(limits.nodes, std::memory_order_relaxed);
  max_bytes_.store(limits.bytes, std::memory_order_relaxed);
}

std::int64_t TraceStore::LiveNodes() { return g_live_nodes.load(); }

// A step's vectors, what the runtime keeps of the call, and a geometry of each
// result: that of an argument, most often, a step before it has brought.
std::uint64_t TraceStore::BytesOf(const StepRecord& step,
                                  const std::vector<SlotRecord>& new_slots) {
  constexpr std::uint64_t kOfCall = 192;
  constexpr std::uint64_t kOfGeometry = sizeof(TensorGeometry) + 32;
  return sizeof(TraceNode) + kOfCall + step.args.size() * sizeof(ArgRecord) +
         step.statics.size() * sizeof(std::uint64_t) +
         step.scalars.size() * sizeof(ScalarRecord) +
         step.results.size() * (sizeof(ResultRecord) + kOfGeometry) +
         new_slots.size() * sizeof(SlotRecord);
}

TraceNode* TraceStore::NewNode(TraceNode* parent, NewStep step,
                               std::uint32_t id) {
  bytes_.fetch_add(BytesOf(step.step, step.new_slots),
                   std::memory_order_relaxed);
  auto node = std::make_unique<TraceNode>();
  node->parent = parent;
  node->step = std::move(step.step);
  node->new_slots = std::move(step.new_slots);
  node->payload = std::move(step.payload);
  if (parent != top_) {
    node->depth = parent->depth + 1;
    node->scalar_begin =
        parent->scalar_begin +
        static_cast<std::uint32_t>(parent->step.scalars.size());
    node->slot_begin = parent->slot_end();
  }
  node->id = id;
  nodes_.push_back(std::move(node));
  g_live_nodes.fetch_add(1);
  node_count_.fetch_add(1, std::memory_order_relaxed);
  return nodes_.back().get();
}

TraceNode* TraceStore::AddPath(TraceNode* from, std::vector<NewStep> steps,
                               TraceNode** branch) {
  TraceNode* node = from;
  std::size_t i = 0;
  for (; i < steps.size(); ++i) {
    TraceNode* child =
        children_.Find(node, ShapeOf(steps[i].step),
                       [&](TraceNode* n) { return IsStep(*n, steps[i]); });
    if (child == nullptr) break;
    MergeScalars(child, steps[i].step);
    node = child;
  }
  const std::size_t missing = steps.size() - i;
  std::uint64_t bytes = this->bytes();
  for (std::size_t k = i; k < steps.size(); ++k) {
    bytes += BytesOf(steps[k].step, steps[k].new_slots);
  }
  const StoreLimits limits = this->limits();
  if (missing + node_count() > limits.nodes || bytes > limits.bytes) {
    return nullptr;
  }
  std::uint64_t id = g_last_node_id.fetch_add(missing);
  if (id + missing > kMaxNodeId) return nullptr;
  *branch = nullptr;
  for (; i < steps.size(); ++i) {
    TraceNode* parent = node;
    node =
        NewNode(parent, std::move(steps[i]), static_cast<std::uint32_t>(++id));
    if (*branch == nullptr) {
      *branch = node;
    } else {
      // Still private: nothing reaches the branch before it is added.
      parent->first_child.store(node, std::memory_order_relaxed);
    }
  }
  return node;
}

Trace* TraceStore::FindOrMakeTrace(TraceKey key, std::uint32_t length,
                                   bool starts_at_boundary) {
  if (Trace* const known = FindIn(by_hash_, key)) return known;
  auto trace = std::make_unique<Trace>();
  trace->key = std::move(key);
  trace->id = ++last_trace_id_;
  trace->length = length;
  trace->starts_at_boundary = starts_at_boundary;
  traces_.push_back(std::move(trace));
  Trace* const made = traces_.back().get();
  by_hash_[made->key.hash].push_back(made);
  return made;
}

Trace* TraceStore::Insert(TraceNode* from, std::vector<NewStep> steps,
                          bool starts_at_boundary, BailReason* why,
                          bool* is_new, TraceNode** last) {
  const std::size_t before = from == top_ ? 0 : from->depth + 1;
  const std::size_t length = before + steps.size();
  if (length == 0 || length > kMaxTraceSteps) {
    *why = length == 0 ? BailReason::kNotRepeated : BailReason::kTraceTooLong;
    return nullptr;
  }
  const MutexLock lock(mutex_);
  TraceNode* branch = nullptr;
  TraceNode* end = AddPath(from, std::move(steps), &branch);
  if (end == nullptr) {
    *why = BailReason::kStoreFull;
    return nullptr;
  }
  if (last != nullptr) *last = end;
  const std::vector<TraceNode*> path = PathTo(end);
  TJIT_ASSERT(IsSound(path), "see trace_verifier.h for the rules");
  TJIT_ASSERT(ParsesBack(path), "see trace_text.h for the form");
  Trace* trace = end->ends.load(std::memory_order_relaxed);
  if (is_new != nullptr) *is_new = trace == nullptr;
  if (trace == nullptr) {
    trace = FindOrMakeTrace(KeyOf(path, {}), static_cast<std::uint32_t>(length),
                            starts_at_boundary);
    if (const auto known = ends_.find(trace); known != ends_.end()) {
      MergeScalarsOfSizes(known->second.front(), end);
    }
    trace->RecordPath(end);
    AddEnd(trace, end);
    end->uses.store(1, std::memory_order_relaxed);
    end->used_at.store(clock_.load(std::memory_order_relaxed),
                       std::memory_order_relaxed);
  }
  if (branch != nullptr) children_.Add(branch);
  return trace;
}

void TraceStore::MarkPart(Trace* trace, bool is_last) {
  trace->is_part.store(true, std::memory_order_relaxed);
  if (is_last) return;
  trace->ends_at_cut.store(true, std::memory_order_relaxed);
  std::uint64_t none = 0;
  cut_at_.compare_exchange_strong(none,
                                  clock_.load(std::memory_order_relaxed) + 1,
                                  std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  part_lengths_.insert(trace->length);
}

void TraceStore::AddEnd(Trace* trace, TraceNode* end) {
  ends_[trace].push_back(end);
  const bool is_hot = trace->hot.load(std::memory_order_relaxed);
  for (TraceNode* n = end; n != top_; n = n->parent) {
    const bool has_owner = n->owner.load(std::memory_order_relaxed) != nullptr;
    if (has_owner && (!is_hot || n->hot.load(std::memory_order_relaxed))) {
      break;  // so it is with all before
    }
    if (!has_owner) n->owner.store(trace, std::memory_order_release);
    if (is_hot) n->hot.store(true, std::memory_order_release);
  }
  end->ends.store(trace, std::memory_order_release);
}

Trace* TraceStore::Find(TraceNode* from, const std::vector<NewStep>& steps) {
  const std::size_t before = from == top_ ? 0 : from->depth + 1;
  const MutexLock lock(mutex_);
  const bool has_length = std::any_of(
      traces_.begin(), traces_.end(), [&](const std::unique_ptr<Trace>& t) {
        return t->length == before + steps.size();
      });
  return has_length ? FindIn(by_hash_, KeyOf(PathTo(from), steps)) : nullptr;
}

Trace* TraceStore::FindPart(const std::vector<NewStep>& steps) {
  if (cut_at_.load(std::memory_order_relaxed) == 0) return nullptr;
  const MutexLock lock(mutex_);
  if (!part_lengths_.contains(steps.size())) return nullptr;
  Trace* const trace = FindIn(by_hash_, KeyOf({}, steps));
  return trace != nullptr && trace->ends_at_cut.load(std::memory_order_relaxed)
             ? trace
             : nullptr;
}

bool TraceStore::CountSighting(Trace* trace, std::int64_t threshold) {
  const std::uint64_t now = clock_.load(std::memory_order_relaxed) + 1;
  clock_.store(now, std::memory_order_relaxed);
  if (trace->hot.load(std::memory_order_acquire)) {
    trace->sightings.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  const MutexLock lock(mutex_);
  const std::uint64_t halvings =
      (now - std::min(now, trace->sighted_at)) / kHalfLife;
  trace->sightings.store(
      trace->sightings.load(std::memory_order_relaxed) >>
          std::min<std::uint64_t>(halvings, 63),
      std::memory_order_relaxed);
  trace->sighted_at = now;
  const std::int64_t seen =
      trace->sightings.fetch_add(1, std::memory_order_relaxed) + 1;
  if (seen < SightingsNeeded(trace->length, threshold) ||
      trace->hot.load(std::memory_order_relaxed)) {
    return false;
  }
  MarkHot(trace);
  trace->hot.store(true, std::memory_order_release);
  return true;
}

void TraceStore::MarkHot(Trace* trace) {
  for (TraceNode* end : ends_[trace]) {
    for (TraceNode* n = end; n != top_; n = n->parent) {
      n->hot.store(true, std::memory_order_release);
    }
  }
}

// Note [Penalties]
// Each exit adds 1 to the penalty, each complete run halves it, so the
// penalty is about the number of exits since the last completion (at most
// twice the exits per completion in the long run). The first kFreeExits cost
// nothing: a last short batch or an evaluation per epoch must not switch off
// a trace that completes a hundred times in between. From then on 2^penalty
// entries are let pass, and past kMaxPenalty, if the trace completes more
// rarely than it is left, kBlacklistEntries. A trace that comes back from the
// blacklist starts with half the penalty: it gets a few tries, not sixteen.
bool TraceStore::Penalize(Trace* trace, BailReason why) {
  trace->last_exit.store(static_cast<std::int64_t>(why),
                         std::memory_order_relaxed);
  const std::int64_t exits =
      trace->exits.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::int64_t penalty =
      trace->penalty.load(std::memory_order_relaxed) + 1;
  const bool is_rare =
      trace->completions.load(std::memory_order_relaxed) < exits;
  if (penalty > policy::kMaxPenalty && is_rare) {
    Blacklist(trace, why);
    return true;
  }
  trace->penalty.store(std::min(penalty, policy::kMaxPenalty),
                       std::memory_order_relaxed);
  if (penalty <= policy::kFreeExits) return false;
  const std::int64_t skip = std::int64_t{1}
                            << std::min(penalty, policy::kMaxPenalty);
  trace->skip.store(skip + Jitter(*trace, exits, skip),
                    std::memory_order_relaxed);
  return false;
}

void TraceStore::Blacklist(Trace* trace, BailReason why) {
  trace->last_exit.store(static_cast<std::int64_t>(why),
                         std::memory_order_relaxed);
  trace->penalty.store(policy::kMaxPenalty / 2, std::memory_order_relaxed);
  trace->skip.store(policy::kBlacklistEntries, std::memory_order_relaxed);
  trace->blacklisted.store(true, std::memory_order_release);
}

void TraceStore::Reward(Trace* trace) {
  const std::int64_t penalty = trace->penalty.load(std::memory_order_relaxed);
  if (penalty != 0) {
    trace->penalty.store(penalty / 2, std::memory_order_relaxed);
  }
}

bool TraceStore::ShouldSkip(Trace* trace) {
  const std::int64_t skip = trace->skip.load(std::memory_order_relaxed);
  if (skip <= 0) return false;
  trace->skip.store(skip - 1, std::memory_order_relaxed);
  if (skip == 1) trace->blacklisted.store(false, std::memory_order_release);
  return true;
}

std::uint32_t TraceStore::node_count() const {
  return node_count_.load(std::memory_order_relaxed);
}

std::vector<const Trace*> TraceStore::traces() const {
  const MutexLock lock(mutex_);
  std::vector<const Trace*> all;
  all.reserve(traces_.size());
  for (const auto& trace : traces_) all.push_back(trace.get());
  return all;
}

std::vector<const TraceNode*> TraceStore::PathOf(const Trace* trace) const {
  const MutexLock lock(mutex_);
  auto ends = ends_.find(trace);
  if (ends == ends_.end()) return {};
  const std::vector<TraceNode*> path = PathTo(ends->second.front());
  return {path.begin(), path.end()};
}

std::vector<std::vector<const TraceNode*>> TraceStore::PathsOf(
    const Trace* trace, std::size_t most) const {
  const MutexLock lock(mutex_);
  std::vector<std::vector<const TraceNode*>> paths;
  const auto ends = ends_.find(trace);
  if (ends == ends_.end()) return paths;
  const std::size_t count = ends->second.size();
  for (std::size_t i = count - std::min(count, most); i < count; ++i) {
    const std::vector<TraceNode*> path = PathTo(ends->second[i]);
    paths.emplace_back(path.begin(), path.end());
  }
  return paths;
}

}  // namespace tjit

#include "runtime/segment/prepared_segment.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "recorder/in_place.h"
#include "recorder/schema_key.h"
#include "runtime/bit_exact/product_verdicts.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log.h"
#include "runtime/report/own_span.h"
#include "runtime/segment/segment_variant.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

// The program waits for trials. Those that are left when they have taken so
// long come so many runs later.
constexpr std::chrono::milliseconds kLongestTrials{20};
constexpr std::uint32_t kRunsBetweenTrials = 8;

// Two runs find where results are to lie (boxed.cpp), two more
// what dies (scratch_pool.h), and one what that needs. What kernels need may
// depend on values (matrix_exp), so that is looked at again. The last looks are
// for trials that sizes which are gone soon have put off.
constexpr std::array<std::uint32_t, 6> kRunsBeforeLook = [] {
  std::array<std::uint32_t, 6> runs = {policy::kFirstLookRuns};
  for (std::size_t i = 1; i < runs.size(); ++i) {
    runs[i] = runs[i - 1] * policy::kLookFactor;
  }
  return runs;
}();

// Memory of slots that have no block and that the plan does not place.
class TemporaryBlocks {
 public:
  TemporaryBlocks() = default;
  ~TemporaryBlocks() {
    if (first_ != nullptr) FreeBlock(first_);
    for (Block* b : more_) FreeBlock(b);
  }
  TemporaryBlocks(const TemporaryBlocks&) = delete;
  TemporaryBlocks& operator=(const TemporaryBlocks&) = delete;
  char* New(std::uint64_t bytes) {
    Block* b = AllocateBlock(bytes, /*quiet=*/true);
    b->program.store(false, std::memory_order_relaxed);
    if (first_ == nullptr) {
      first_ = b;
    } else {
      more_.push_back(b);
    }
    return b->data;
  }

 private:
  Block* first_ = nullptr;  // most of the time there is but the arena
  std::vector<Block*> more_;
};

// REQUIRES: it has a block.
SlotFate FateOf(const SlotBinding& slot, std::uint64_t bytes) {
  if (!slot.held) return kSurvives;
  const bool is_whole =
      slot.shift == 0 && slot.block->bytes == bytes && !slot.shares;
  return is_whole ? kGivenUp : kDies;
}

// Runs that its trace has begun, in all sizes.
std::int64_t RunsOfTrace(const TraceNode& node) {
  const Trace* const trace = node.owner.load(std::memory_order_acquire);
  return trace == nullptr ? 0 : trace->entries.load(std::memory_order_relaxed);
}

// Where many sizes take turns each product is another one in each of them: to
// try all of them early would take half of the program's time for seconds.
constexpr std::uint32_t kRunsOfTurns =
    policy::kRunsBeforeTrials * policy::kLookFactor;

// `runs`: of this size. `all`: of its trace since it was first there. It comes
// back if others ran between; they may be many.
bool TakeTurns(std::uint32_t runs, std::int64_t all) {
  return 2 * all > 3 * static_cast<std::int64_t>(runs);
}
bool AreMany(std::uint32_t runs, std::int64_t all) {
  return all > policy::kTriedPaths * static_cast<std::int64_t>(runs);
}

}  // namespace

PreparedSegment::PreparedSegment(const std::vector<TraceNode*>& nodes,
                                 StepClasses* classes, SegmentCompiler compiler,
                                 std::shared_ptr<CodeOfSizes> sizes)
    : nodes_(nodes),
      classes_(classes),
      compiler_(compiler),
      sizes_(std::move(sizes)),
      engine_(&compiler.tier2->EngineIn(
          RegionOfContext(nodes.front()->step.context))) {
  std::vector<const TraceNode*> path;
  for (const TraceNode* n = nodes.back(); n != nullptr; n = n->parent) {
    path.push_back(n);
  }
  for (auto it = path.rbegin(); it != path.rend(); ++it) {
    for (const SlotRecord& slot : (*it)->new_slots) {
      slot_bytes_.push_back(slot.bytes);
    }
  }
  born_.assign(slot_bytes_.size(), -1);
  std::vector<std::int32_t> used;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const ResultRecord& r : nodes_[i]->step.results) {
      if (r.kind == ResultRecord::Kind::kFresh) {
        born_[r.slot] = static_cast<std::int32_t>(i);
        used.push_back(r.slot);
      }
    }
    for (const ArgRecord& a : nodes_[i]->step.args) {
      if (a.slot != kNoSlot) used.push_back(a.slot);
    }
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (const std::int32_t s : used) {
    used_.push_back({s, born_[s] >= 0 ? kDies : kFilledHere});
  }
}

PreparedSegment::~PreparedSegment() = default;

void PreparedSegment::PrepareAll(Counters* counters) {
  OwnSpan span;
  if (OwnSpan::IsSeen()) span.Begin("prepare " + OpsText(nodes_));
  LogPreparing(*nodes_.front(), nodes_.size());
  const Trace* const logged =
      InstructionLogOn() ? TraceOfSegment(*nodes_.back()) : nullptr;
  if (logged != nullptr) {
    LogTraceEvent(LogEvent::kCompile, "Starting", logged,
                  absl::StrCat("ops=", nodes_.size(), " tier=1"));
  }
  const auto began = std::chrono::steady_clock::now();
  ContextScope scope;  // probes run kernels
  steps_.clear();      // an attempt before may have thrown
  slot_map_.clear();
  std::vector<std::int32_t> slots;
  std::size_t most = 0;
  std::size_t direct = 0;
  for (const TraceNode* node : nodes_) {
    scope.Switch(node->step.context);
    BoundStep step;
    step.step_class = classes_->For(*node, slot_bytes_, &slots, counters);
    step.segment = this;
    step.context = node->step.context;
    step.first_slot = static_cast<std::uint32_t>(slot_map_.size());
    step.slot_count = static_cast<std::uint32_t>(slots.size());
    slot_map_.insert(slot_map_.end(), slots.begin(), slots.end());
    most = std::max(most, slots.size());
    steps_.push_back(step);
    const bool boxed = step.step_class->prepared().is_boxed();
    (boxed ? counters->thunks_boxed : counters->thunks_direct).Add();
    direct += boxed ? 0 : 1;
  }
  step_slots_.resize(most);
  const std::chrono::nanoseconds took =
      std::chrono::steady_clock::now() - began;
  const auto took_ns = static_cast<std::uint64_t>(took.count());
  if (logged != nullptr) {
    LogTraceEvent(LogEvent::kCompile, "Complete", logged,
                  absl::StrCat("ops=", steps_.size(), " direct=", direct),
                  took_ns);
  }
  LogPrepared(direct, steps_.size(), took_ns);
}

std::vector<PlanStep> PreparedSegment::PlanSteps() const {
  std::vector<PlanStep> steps;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const TraceNode* node = nodes_[i];
    PlanStep& step = steps.emplace_back();
    const PreparedStep& prepared = steps_[i].step_class->prepared();
    if (!prepared.is_boxed()) step.in_place = InPlacePairs(node->step);
    step.scratch = prepared.Scratch();
    for (const ArgRecord& a : node->step.args) {
      if (a.slot == kNoSlot) continue;
      step.reads.push_back(a.slot);
      if (a.written) step.writes.push_back(a.slot);
    }
    for (const ResultRecord& r : node->step.results) {
      if (r.kind == ResultRecord::Kind::kFresh) step.writes.push_back(r.slot);
    }
  }
  return steps;
}

std::vector<PlanSlot> PreparedSegment::PlanSlots(
    const std::vector<std::uint8_t>& live) const {
  std::vector<PlanSlot> slots(slot_bytes_.size());
  for (std::size_t s = 0; s < slots.size(); ++s) {
    slots[s] = {slot_bytes_[s], live[s] == kFilledHere ? 0 : born_[s],
                live[s] == kSurvives, live[s] == kGivenUp};
  }
  return slots;
}

// What died in every run so far gets no memory when it is deferred next time.
void PreparedSegment::RecordSurvivors() const {
  for (TraceNode* node : nodes_) {
    std::uint32_t died = 0, lived = 0;
    for (std::size_t i = 0; i < node->step.results.size() && i < 32; ++i) {
      const ResultRecord& r = node->step.results[i];
      if (r.kind != ResultRecord::Kind::kFresh) continue;
      (live_[r.slot] == kSurvives ? lived : died) |= 1u << i;
    }
    if (died != 0) node->died.fetch_or(died, std::memory_order_relaxed);
    if (lived != 0) node->lived.fetch_or(lived, std::memory_order_relaxed);
  }
}

// One pass, which most runs end with: that every survivor has a pointer is a
// part of it. THROWS: as EnsureMemory().
bool PreparedSegment::IsFor(const Run& run, const Variant& variant) {
  const SlotBinding* const slots = run.slots.data();
  const std::uint8_t* const live = variant.live.data();
  char** const pointers = pointers_.data();
  for (const UsedSlot& used : used_) {
    const SlotBinding& slot = slots[used.slot];
    if (slot.block == nullptr) {
      if (live[used.slot] != used.fate_without_block) return false;
      pointers[used.slot] = nullptr;
      continue;
    }
    if (live[used.slot] != FateOf(slot, slot_bytes_[used.slot])) return false;
    EnsureMemory(slot.block);
    pointers[used.slot] = slot.block->data + slot.shift;
  }
  return true;
}

PreparedSegment::Variant& PreparedSegment::VariantFor(const Run& run,
                                                      Counters* counters) {
  pointers_.resize(slot_bytes_.size());  // those that are not used stay null
  if (last_variant_ < variants_.size() && !Planted(Defect::kWrongLiveOut) &&
      IsFor(run, variants_[last_variant_])) {
    return variants_[last_variant_];
  }
  FillPointers(run);
  live_.assign(slot_bytes_.size(), 0);
  for (const UsedSlot& used : used_) {
    const SlotBinding& slot = run.slots[used.slot];
    live_[used.slot] = used.fate_without_block;
    if (slot.block != nullptr) {
      live_[used.slot] = FateOf(slot, slot_bytes_[used.slot]);
    }
  }
  if (Planted(Defect::kWrongLiveOut)) {
    for (std::size_t s = 0; s < live_.size(); ++s) {
      if (born_[s] >= 0 && s % 7 == 3) live_[s] = kDies;
    }
  }
  for (last_variant_ = 0; last_variant_ < variants_.size(); ++last_variant_) {
    Variant& v = variants_[last_variant_];
    if (v.live == live_) return v;
  }
  const bool is_last = variants_.size() >= policy::kMaxVariants;
  if (is_last) {
    for (const auto [s, fate] : used_) live_[s] = kSurvives;
    for (Variant& v : variants_) {
      if (v.live != live_) continue;
      v.keeps_all = true;
      return v;
    }
  }
  RecordSurvivors();
  Variant made;
  made.live = live_;
  made.keeps_all = is_last;
  made.began = RunsOfTrace(*nodes_[0]);
  Plan(&made, counters);  // may throw: there is no variant then
  variants_.push_back(std::move(made));
  CountKept();
  return variants_.back();
}

void PreparedSegment::Plan(Variant* variant, Counters* counters) {
  std::vector<ProgramStep> program;
  for (std::size_t i = 0; i < nodes_.size(); ++i) program.push_back(StepOf(i));
  counters->memory_plans.Add();
  std::vector<std::uint64_t> ways = WaysOfSteps();
  variant->executable = std::make_unique<Executable>(
      program, PlanMemory(PlanSteps(), PlanSlots(variant->live)));
  variant->ways = std::move(ways);
}

void PreparedSegment::CountKept() {
  std::size_t bytes = sizeof(*this) + HeapOf(nodes_) + HeapOf(slot_bytes_) +
                      HeapOf(born_) + HeapOf(used_) + HeapOf(steps_) +
                      HeapOf(slot_map_) + HeapOf(variants_) +
                      HeapOf(pointers_) + HeapOf(live_);
  for (const Variant& v : variants_) {
    bytes += HeapOf(v.live) + HeapOf(v.ways) + KeptBytesOf(*v.executable);
    if (v.tier2 != nullptr) bytes += v.tier2->KeptBytes();
  }
  kept_.Set(bytes);
}

// What kernels need beside their results is known when they have run.
void PreparedSegment::MaybePlanAgain(Variant* variant, bool may_try,
                                     Counters* counters) {
  ++variant->runs;
  if (std::find(kRunsBeforeLook.begin(), kRunsBeforeLook.end(),
                variant->runs) == kRunsBeforeLook.end()) {
    return;
  }
  if (variant->tried_at != 0 && variant->runs > variant->tried_at &&
      !variant->has_stayed) {
    sizes_->RecordStay();
    variant->has_stayed = true;
  }
  if (may_try) MaybeTrySteps(variant, counters);
  if (WaysOfSteps() != variant->ways) Plan(variant, counters);
  if (variant->tier2 != nullptr) variant->tier2->PlanAgain(this, variant);
}

void PreparedSegment::MaybeTrySteps(Variant* variant, Counters* counters) {
  const auto wants_trials = [](const BoundStep& step) {
    return step.step_class->wants_trials();
  };
  if (std::none_of(steps_.begin(), steps_.end(), wants_trials)) return;
  if (variant->tried_at == 0 && !BeginsTrials(variant)) return;
  if (!TrySteps(counters)) variant->runs -= kRunsBetweenTrials;
}

bool PreparedSegment::BeginsTrials(Variant* variant) const {
  const std::uint32_t runs = variant->runs;
  const std::int64_t all = RunsOfTrace(*nodes_[0]) - variant->began;
  const bool comes_back = TakeTurns(runs, all);
  std::uint32_t least = policy::kRunsBeforeTrials;
  if (!comes_back) {
    least = sizes_->RunsBeforeTrials(kRunsBeforeLook.back());
  } else if (AreMany(runs, all)) {
    least = kRunsOfTurns;
  }
  if (runs < least) return false;
  variant->tried_at = runs;
  // Behind the last look nobody asks again.
  const bool is_last = runs >= kRunsBeforeLook.back();
  variant->has_stayed = comes_back || is_last;
  if (!comes_back && is_last) sizes_->RecordStay();
  if (!variant->has_stayed) sizes_->RecordTrialOfSize();
  return true;
}

bool PreparedSegment::TrySteps(Counters* counters) {
  const auto began = std::chrono::steady_clock::now();
  ContextScope scope;  // trials run kernels
  bool are_all_tried = true;
  for (const BoundStep& step : steps_) {
    if (!step.step_class->wants_trials()) continue;
    are_all_tried = std::chrono::steady_clock::now() - began < kLongestTrials;
    if (!are_all_tried) break;
    scope.Switch(step.context);
    step.step_class->PrepareWithTrials(counters);
  }
  VerdictsOfProducts().Save();
  return are_all_tried;
}

std::vector<std::uint64_t> PreparedSegment::WaysOfSteps() const {
  std::vector<std::uint64_t> ways;
  for (const BoundStep& step : steps_) {
    ways.push_back(step.step_class->times_tried());
    const std::vector<std::uint64_t> more =
        step.step_class->prepared().Scratch();
    ways.push_back(more.size());
    ways.insert(ways.end(), more.begin(), more.end());
  }
  return ways;
}

ProgramStep PreparedSegment::StepOf(std::size_t i) {
  const PreparedStep& step = steps_[i].step_class->prepared();
  return {step.uses_tensors() ? &RunOverTensors : &RunDirect, &steps_[i],
          nodes_[i]->scalar_begin, step.takes_scratch() ? &Lend : nullptr};
}

void PreparedSegment::Lend(void* state, char* data, std::uint64_t bytes) {
  static_cast<const BoundStep*>(state)->step_class->prepared().Lend(data,
                                                                    bytes);
}

char* const* PreparedSegment::SlotsOf(const BoundStep& step,
                                      char* const* slots) {
  running_ = &step;
  TORCH_CHECK(!Planted(Defect::kStepThrows) || &step != &steps_.back(),
              "planted");
  const std::int32_t* map = slot_map_.data() + step.first_slot;
  char** mine = step_slots_.data();
  for (std::uint32_t i = 0; i < step.slot_count; ++i) mine[i] = slots[map[i]];
  return mine;
}

void PreparedSegment::RunDirect(void* state, char* const* slots,
                                const ScalarValue* scalars) {
  const auto& step = *static_cast<const BoundStep*>(state);
  step.step_class->prepared().Run(step.segment->SlotsOf(step, slots), scalars);
}

void PreparedSegment::RunOverTensors(void* state, char* const* slots,
                                     const ScalarValue* scalars) {
  const auto& step = *static_cast<const BoundStep*>(state);
  step.segment->scope_->Switch(step.context);
  char* const* mine = step.segment->SlotsOf(step, slots);
  step.step_class->Bind(mine);
  step.step_class->prepared().Run(mine, scalars);
}

void PreparedSegment::FillPointers(const Run& run) {
  pointers_.resize(slot_bytes_.size());
  char** const pointers = pointers_.data();
  for (const auto [s, fate] : used_) {
    const SlotBinding& slot = run.slots[s];
    pointers[s] = nullptr;
    if (slot.block == nullptr) continue;
    EnsureMemory(slot.block);
    pointers[s] = slot.block->data + slot.shift;
  }
}

void PreparedSegment::Execute(const Run& run, Counters* counters) {
  has_begun_ = false;
  if (steps_.size() != nodes_.size()) PrepareAll(counters);
  Variant& variant = VariantFor(run, counters);
  if (variant.runs < kRunsBeforeLook.back()) {
    MaybePlanAgain(&variant, /*may_try=*/true, counters);
  }
  if (Planted(Defect::kNoExecute)) return;
  Tier2Variant::Running tier2(this, &variant, run, counters);
  TemporaryBlocks temporary;
  char* arena = nullptr;
  const std::uint64_t bytes = tier2.arena_bytes();
  if (bytes != 0) arena = temporary.New(bytes);
  if (variant.keeps_all) [[unlikely]] {
    for (const auto [s, fate] : used_) {
      // Dropped, but this plan (made for more survivors) writes it.
      if (pointers_[s] == nullptr && variant.live[s] == kSurvives) {
        pointers_[s] = temporary.New(slot_bytes_[s]);
      }
    }
  }
  DelayReplay();
  ContextScope scope;
  scope_ = &scope;
  has_begun_ = true;
  tier2.Run(pointers_.data(), run.scalars.data(), arena);
}

bool PreparedSegment::ExecuteAlone(const Run& run, Counters* counters) {
  has_begun_ = false;
  if (last_variant_ >= variants_.size()) return false;
  Variant& variant = variants_[last_variant_];
  if (variant.keeps_all || variant.tier2 == nullptr ||
      !variant.tier2->RunsAlone(*this, run) || !IsFor(run, variant)) {
    return false;
  }
  Tier2Variant::RunSettled(this, &variant, /*is_compiled=*/true,
                           run.scalars.data(), counters);
  return true;
}

void Tier2Variant::RunSettled(PreparedSegment* segment,
                              PreparedSegment::Variant* variant,
                              bool is_compiled, const ScalarValue* scalars,
                              Counters* counters) {
  segment->has_begun_ = false;
  if (variant->runs < kRunsBeforeLook.back()) {
    const bool is_alone = is_compiled && variant->tier2->is_alone_;
    segment->MaybePlanAgain(variant, /*may_try=*/!is_alone, counters);
  }
  TemporaryBlocks temporary;
  Running tier2(segment, variant, is_compiled, counters);
  char* arena = nullptr;
  const std::uint64_t bytes = tier2.arena_bytes();
  if (bytes != 0) arena = temporary.New(bytes);
  DelayReplay();
  ContextScope scope;
  segment->scope_ = &scope;
  segment->has_begun_ = true;
  tier2.Run(segment->pointers_.data(), scalars, arena);
}

void PreparedSegment::Drain(const Run& run, Counters* counters) {
  has_begun_ = false;
  if (steps_.size() != nodes_.size()) PrepareAll(counters);
  FillPointers(run);
  TemporaryBlocks temporary;
  for (const auto [s, fate] : used_) {
    if (pointers_[s] == nullptr) {
      pointers_[s] = temporary.New(slot_bytes_[s]);
    }
  }
  ContextScope scope;
  has_begun_ = true;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const BoundStep& step = steps_[i];
    scope.Switch(step.context);
    char* const* mine = SlotsOf(step, pointers_.data());
    step.step_class->Bind(mine);
    step.step_class->boxed().Run(
        mine, run.scalars.data() + nodes_[i]->scalar_begin);
  }
}

std::string PreparedSegment::ToText() const {
  std::string text = absl::StrCat("segment ops=", nodes_.size(), "\n");
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    absl::StrAppend(&text, "  %", nodes_[i]->depth, " ",
                    std::string(OpName(nodes_[i]->step.op)),
                    steps_[i].step_class->prepared().is_boxed()
                        ? ": the eager kernel\n"
                        : ": direct call\n");
  }
  for (const Variant& v : variants_) {
    const MemoryPlan& plan = v.executable->plan();
    absl::StrAppend(&text, "  plan for survivors");
    for (std::size_t s = 0; s < v.live.size(); ++s) {
      if (v.live[s] == kSurvives && born_[s] >= 0) {
        absl::StrAppend(&text, " s", s);
      }
    }
    absl::StrAppend(&text, ": ", plan.needed.size(), " ops run, arena ",
                    plan.arena_bytes, " bytes");
    for (const Placement& p : plan.placements) {
      absl::StrAppend(&text, ", s", p.slot, " at ", p.offset);
      if (p.host >= 0) absl::StrAppend(&text, " in s", p.host);
    }
    for (const ScratchPlace& p : plan.scratch) {
      absl::StrAppend(&text, ", scratch of %",
                      nodes_[plan.needed[p.step]]->depth, " at ", p.offset);
      if (p.host >= 0) absl::StrAppend(&text, " in s", p.host);
    }
    text += "\n";
  }
  return text;
}

std::string SegmentCache::ToText() const {
  std::vector<std::string> texts;
  for (const auto& [key, segment] : segments_) {
    texts.push_back(segment->ToText());
  }
  std::sort(texts.begin(), texts.end());
  std::string all;
  for (const std::string& text : texts) all += text;
  return all;
}

bool PreparedSegment::MoveTo(const TraceStore& store) {
  TraceNode* node = store.NodeOf(nodes_.back()->id);
  if (node == nullptr) return false;
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    while (node->id != nodes_[i]->id) node = node->parent;
    nodes_[i] = node;
  }
  return true;
}

void SegmentCache::MoveTo(const TraceStore& store) try {
  last_ = nullptr;
  absl::erase_if(segments_, [&](const auto& segment) {
    return !segment.second->MoveTo(store);
  });
  absl::flat_hash_set<const StepClass*> used;
  weight_ = 0;
  for (const auto& [key, segment] : segments_) {
    segment->RecordClasses(&used);
    weight_ += segment->weight();
  }
  classes_.KeepOnly(used);
} catch (const std::bad_alloc&) {
  Clear();
}

PreparedSegment* SegmentCache::Find(const std::vector<TraceNode*>& nodes,
                                    const GlobalContext& global) {
  const Key key = KeyOf(nodes, global);
  if (last_ != nullptr && last_key_ == key) return last_;
  const auto found = segments_.find(key);
  if (found == segments_.end()) return nullptr;
  last_ = found->second.get();
  last_key_ = key;
  return last_;
}

PreparedSegment* SegmentCache::FindShorter(const Run& run,
                                           const GlobalContext& global) {
  for (std::size_t ops = 1; ops < run.pending.size(); ++ops) {
    const TraceNode* const last = run.pending[ops - 1];
    if (last->ends.load(std::memory_order_acquire) == nullptr) continue;
    const auto found = segments_.find(
        {std::uint64_t{last->id} << 32 | run.pending.front()->depth,
         global.word});
    if (found == segments_.end()) continue;
    // What no op fills is there all the same, and holds anything.
    for (const SlotBinding& slot : run.slots) {
      if (slot.block != nullptr) EnsureMemory(slot.block);
    }
    return found->second.get();
  }
  return nullptr;
}

SegmentCache::SizesKey SegmentCache::SizesKeyOf(
    const std::vector<TraceNode*>& nodes) {
  const auto trace_of = [](const TraceNode* node) {
    const Trace* const trace = node->owner.load(std::memory_order_acquire);
    return trace == nullptr ? 0 : trace->id;
  };
  return {trace_of(nodes.front()), trace_of(nodes.back()), nodes.front()->depth,
          nodes.back()->depth};
}

std::shared_ptr<CodeOfSizes> SegmentCache::SizesOf(
    const std::vector<TraceNode*>& nodes) {
  std::shared_ptr<CodeOfSizes>& sizes = sizes_[SizesKeyOf(nodes)];
  if (sizes == nullptr) sizes = std::make_shared<CodeOfSizes>();
  return sizes;
}

PreparedSegment& SegmentCache::For(const Run& run,
                                   const GlobalContext& global) {
  if (Planted(Defect::kWrongTripCount)) {
    if (PreparedSegment* const shorter = FindShorter(run, global)) {
      return *shorter;
    }
  }
  if (PreparedSegment* const known = Find(run.pending, global)) return *known;
  const std::shared_ptr<CodeOfSizes> sizes = SizesOf(run.pending);
  auto segment = std::make_unique<PreparedSegment>(run.pending, &classes_,
                                                   compiler_, sizes);
  if (weight_ + segment->weight() > policy::kMaxSegmentWeight) {
    Clear();
    sizes_[SizesKeyOf(run.pending)] = sizes;
  }
  weight_ += segment->weight();
  return *segments_.emplace(KeyOf(run.pending, global), std::move(segment))
              .first->second;
}

}  // namespace tjit::runtime

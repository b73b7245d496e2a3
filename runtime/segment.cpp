#include "runtime/segment.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "runtime/testing_hooks.h"

namespace tjit::runtime {
namespace {

// More live-out masks than this share one plan that keeps everything.
constexpr std::size_t kMaxVariants = 8;

// Memory of slots that have no block and that the plan does not place.
class TemporaryBlocks {
 public:
  TemporaryBlocks() = default;
  ~TemporaryBlocks() {
    for (Block* b : blocks_) FreeBlock(b);
  }
  TemporaryBlocks(const TemporaryBlocks&) = delete;
  TemporaryBlocks& operator=(const TemporaryBlocks&) = delete;
  char* New(std::uint64_t bytes) {
    Block* b = AllocateBlock(bytes, /*quiet=*/true);
    b->program.store(false, std::memory_order_relaxed);
    blocks_.push_back(b);
    return b->data;
  }

 private:
  std::vector<Block*> blocks_;
};

}  // namespace

PreparedSegment::PreparedSegment(const std::vector<TraceNode*>& nodes)
    : nodes_(nodes) {
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
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    for (const ResultRecord& r : nodes_[i]->step.results) {
      if (r.kind == ResultRecord::Kind::kFresh) {
        born_[r.slot] = static_cast<std::int32_t>(i);
      }
    }
  }
}

void PreparedSegment::PrepareAll(Counters* counters) {
  std::vector<std::uint8_t> bound(slot_bytes_.size(), 0);
  ContextScope scope;  // probes run kernels
  for (const TraceNode* node : nodes_) {
    scope.Switch(node->step.context);
    const auto& call = *static_cast<const CapturedCall*>(node->payload.get());
    try {
      steps_.push_back(PrepareStep(node->step, call, slot_bytes_, &tensors_));
    } catch (const c10::Error&) {
      // Stricter than eager (an out variant that checks overlap): run it as
      // the program would.
      counters->side_exits[static_cast<std::size_t>(BailReason::kThunkFailed)]
          .Add();
      steps_.push_back(PrepareBoxed(node->step, call, slot_bytes_, &tensors_));
    }
    const PreparedStep& step = *steps_.back();
    (step.is_boxed() ? counters->thunks_boxed : counters->thunks_direct).Add();
    tier_steps_.push_back({steps_.back().get(), this, node->step.context});
    if (!step.uses_tensors()) continue;
    for (const ArgRecord& a : node->step.args) {
      if (a.slot != kNoSlot) bound[a.slot] = 1;
    }
    for (const ResultRecord& r : node->step.results) {
      if (r.slot != kNoSlot) bound[r.slot] = 1;
    }
  }
  for (std::size_t s = 0; s < bound.size(); ++s) {
    if (bound[s]) tensor_slots_.push_back(static_cast<std::int32_t>(s));
  }
}

std::vector<PlanStep> PreparedSegment::PlanSteps() const {
  std::vector<PlanStep> steps;
  for (const TraceNode* node : nodes_) {
    PlanStep& step = steps.emplace_back();
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
    slots[s] = {slot_bytes_[s], born_[s], live[s] != 0};
  }
  return slots;
}

PreparedSegment::Variant& PreparedSegment::VariantFor(const Run& run,
                                                      Counters* counters) {
  live_.assign(slot_bytes_.size(), 0);
  for (std::size_t s = 0; s < live_.size(); ++s) {
    live_[s] = run.slots[s].block != nullptr && !run.slots[s].held;
  }
  if (Planted(Defect::kWrongLiveOut)) {
    for (std::size_t s = 0; s < live_.size(); ++s) {
      if (born_[s] >= 0 && s % 7 == 3) live_[s] = 0;
    }
  }
  for (Variant& v : variants_) {
    if (v.live == live_) return v;
  }
  if (variants_.size() >= kMaxVariants) {
    std::fill(live_.begin(), live_.end(), 1);
    for (Variant& v : variants_) {
      if (v.live == live_) return v;
    }
  }
  std::vector<ProgramStep> program;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const bool plain = !steps_[i]->uses_tensors();
    const auto [hot, hot_bytes] = steps_[i]->hot();
    program.push_back(
        {plain ? &PreparedStep::Thunk : &RunTierStep,
         plain ? static_cast<void*>(steps_[i].get()) : &tier_steps_[i],
         nodes_[i]->scalar_begin, hot, static_cast<std::uint32_t>(hot_bytes)});
  }
  counters->memory_plans.Add();
  variants_.push_back(
      {live_, std::make_unique<Executable>(
                  program, PlanMemory(PlanSteps(), PlanSlots(live_)))});
  return variants_.back();
}

void PreparedSegment::RunTierStep(void* state, char* const* slots,
                                  const ScalarValue* scalars) {
  const auto* tier = static_cast<const TierStep*>(state);
  tier->segment->scope_->Switch(tier->context);
  tier->step->Run(slots, scalars);
}

void PreparedSegment::FillPointers(const Run& run) {
  pointers_.assign(slot_bytes_.size(), nullptr);
  for (std::size_t s = 0; s < pointers_.size(); ++s) {
    const SlotBinding& slot = run.slots[s];
    if (slot.block != nullptr) pointers_[s] = slot.block->data + slot.shift;
  }
}

void PreparedSegment::Execute(const Run& run, Counters* counters) {
  if (steps_.empty()) PrepareAll(counters);
  Variant& variant = VariantFor(run, counters);
  FillPointers(run);
  if (Planted(Defect::kNoExecute)) return;
  TemporaryBlocks temporary;
  char* arena = nullptr;
  const MemoryPlan& plan = variant.executable->plan();
  if (plan.arena_bytes != 0) arena = temporary.New(plan.arena_bytes);
  for (const Placement& p : plan.placements) {
    pointers_[p.slot] = arena + p.offset;
  }
  for (std::size_t s = 0; s < pointers_.size(); ++s) {
    // Dropped, but this plan (made for more survivors) writes it.
    if (pointers_[s] == nullptr && variant.live[s] && born_[s] >= 0) {
      pointers_[s] = temporary.New(slot_bytes_[s]);
    }
  }
  for (std::int32_t s : tensor_slots_) tensors_.Bind(s, pointers_[s]);
  ContextScope scope;
  scope_ = &scope;
  variant.executable->Run(pointers_.data(), run.scalars.data(), arena);
}

void PreparedSegment::Drain(const Run& run, Counters* counters) {
  if (boxed_.empty()) {
    for (const TraceNode* node : nodes_) {
      const auto& call =
          *static_cast<const CapturedCall*>(node->payload.get());
      boxed_.push_back(PrepareBoxed(node->step, call, slot_bytes_, &tensors_));
    }
  }
  FillPointers(run);
  TemporaryBlocks temporary;
  for (std::size_t s = 0; s < pointers_.size(); ++s) {
    if (pointers_[s] == nullptr && born_[s] >= 0) {
      pointers_[s] = temporary.New(slot_bytes_[s]);
    }
    if (pointers_[s] != nullptr) {
      tensors_.Bind(static_cast<std::int32_t>(s), pointers_[s]);
    }
  }
  ContextScope scope;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    scope.Switch(nodes_[i]->step.context);
    boxed_[i]->Run(pointers_.data(),
                   run.scalars.data() + nodes_[i]->scalar_begin);
  }
}

PreparedSegment& SegmentCache::For(const Run& run) {
  const std::uint64_t key = std::uint64_t{run.pending.back()->id} << 32 |
                            run.pending.front()->depth;
  std::unique_ptr<PreparedSegment>& segment = segments_[key];
  if (segment == nullptr) {
    segment = std::make_unique<PreparedSegment>(run.pending);
  }
  return *segment;
}

}  // namespace tjit::runtime

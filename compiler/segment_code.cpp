#include "compiler/segment_code.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/lower/partition.h"
#include "compiler/segment_dump.h"
#include "compiler/segment_steps.h"
#include "compiler/step_engine.h"
#include "compiler/varied_scalars.h"
#include "recorder/overwrite.h"

namespace tjit {
namespace {

class SegmentCompiler {
 public:
  SegmentCompiler(const SegmentInput& input, Engine* engine, KernelCache* cache,
                  const CompileLimits& limits, SegmentDump* dump)
      : input_(input),
        engine_(engine),
        cache_(cache),
        limits_(limits),
        dump_(dump),
        scalars_(input, engine->steps() == nullptr),
        context_(absl::StrCat(engine->name(),
                              input.has_usual_arithmetic ? "" : " unusual")) {}

  SegmentCode Run() {
    DescribeSteps();
    for (std::uint32_t s = 0; s < steps_.size(); ++s) {
      FindLowerable(s);
      // Loops want steps of equal extent together, graphs all that may be.
      if (engine_->steps() != nullptr) steps_[s].elements = 0;
    }
    for (const PartitionItem& item : Partition(steps_)) {
      if (!item.is_group) {
        AddCalls(item.steps);
      } else if (engine_->steps() == nullptr) {
        AddGroup(item.steps);
      } else {
        for (const auto& part : ByContext(input_, item.steps))
          AddStepGroup(part);
      }
    }
    return std::move(code_);
  }

  bool Foresee(const std::atomic<bool>& stop) {
    DescribeSteps();
    for (std::uint32_t s = 0; s < steps_.size(); ++s) {
      if (stop.load()) return false;
      FindLowerable(s);
    }
    for (const PartitionItem& item : Partition(steps_)) {
      if (stop.load()) return false;
      if (item.is_group) ForeseeGroup(item.steps);
    }
    return true;
  }

 private:
  void DescribeSteps() {
    for (const SegmentStep& step : input_.steps) {
      steps_.push_back(DescribeStep(step));
    }
    CountUses();
  }

  void FindLowerable(std::uint32_t s) {
    steps_[s].is_lowerable = CanCompile(s);
    if (!steps_[s].is_lowerable && scalars_.Has(s)) {
      scalars_.Bake(s);
      steps_[s].is_lowerable = CanCompile(s);
    }
  }

  void AddCalls(const std::vector<std::uint32_t>& steps) {
    for (const std::uint32_t s : steps) {
      code_.order.push_back({-1, input_.steps[s].index});
    }
  }

  void AddGroup(const std::vector<std::uint32_t>& steps) {
    CompiledGroup group;
    if (!KeepsLimits(steps) || !CompileGroup(steps, &group)) {
      return AddCalls(steps);
    }
    Append(std::move(group));
  }

  void Append(CompiledGroup group) {
    code_.order.push_back({static_cast<std::int32_t>(code_.groups.size()), 0});
    code_.steps_fused += static_cast<std::int64_t>(group.steps.size());
    code_.groups.push_back(std::move(group));
  }

  // Steps that go alone may not go together: then in two groups.
  void AddStepGroup(const std::vector<std::uint32_t>& steps) {
    if (!KeepsLimits(steps)) return AddCalls(steps);
    CompiledGroup group;
    std::string why;
    if (CompileSteps(steps, &group, &why)) return Append(std::move(group));
    if (steps.size() == 1) {
      Fail(steps, std::move(why));
      return AddCalls(steps);
    }
    const auto half = steps.begin() + (steps.size() + 1) / 2;
    AddStepGroup({steps.begin(), half});
    AddStepGroup({half, steps.end()});
  }

  // Steps that use a slot, each counted once.
  void CountUses() {
    uses_.assign(input_.slots.size(), 0);
    for (std::uint32_t s = 0; s < steps_.size(); ++s) {
      for (const std::int32_t slot : SlotsOf(steps_[s])) {
        if (uses_[slot]++ == 0 && Fills(input_.steps[s].record, slot)) {
          filled_by_.emplace(slot, s);
        }
      }
    }
  }

  // True if a slot that nobody owns afterwards begins with this step.
  bool Fills(const StepRecord& record, std::int32_t slot) const {
    const SegmentSlot& info = input_.slots[slot];
    return engine_->steps() == nullptr && !info.live_out &&
           !record.args.empty() && record.args[0].slot == slot &&
           OverwritesAll(record, record.args[0], info.bytes);
  }

  // A group of this step alone could be compiled.
  bool CanCompile(std::uint32_t s) {
    if (engine_->steps() != nullptr) return CanTakeStep(s);
    // Its other threads may have another arithmetic, and eager knows which
    // elements are theirs.
    if (!input_.has_usual_arithmetic && input_.threads > 1) return false;
    const std::vector<GroupStep> step = LoweringSteps({s});
    const std::vector<GroupSlot> slots = GroupSlots({s});
    const auto find = [&] {
      if (!CanLower(step[0])) return false;
      Lowered lowered;
      std::string reason;
      return Lower(step, slots, &lowered, &reason) &&
             (input_.has_usual_arithmetic ||
              !NeedsUsualArithmetic(lowered.function)) &&
             engine_->WhyNot(lowered.function).empty();
    };
    return cache_->groups()->CanCompile(GroupKey(context_, step, slots), find);
  }

  std::vector<GroupStep> LoweringSteps(
      const std::vector<std::uint32_t>& steps) const {
    std::vector<GroupStep> lowering;
    for (const std::uint32_t s : steps) {
      lowering.push_back(
          {&scalars_.RecordOf(s), input_.steps[s].op, input_.threads});
    }
    return lowering;
  }

  bool CanTakeStep(std::uint32_t s) {
    std::string why = engine_->steps()->WhyNot(MakeStepGroup({s}));
    return why.empty() || Fail({s}, std::move(why));
  }

  StepGroup MakeStepGroup(const std::vector<std::uint32_t>& steps) {
    StepGroup group;
    group.slots = GroupSlots(steps);
    for (const GroupSlot& slot : group.slots) {
      if (!slot.born_here) {
        group.externals.push_back(slot.slot);
      } else if (slot.needed_after) {
        group.returns.push_back(slot.slot);
      }
    }
    for (const std::uint32_t s : steps) {
      const SegmentStep& step = input_.steps[s];
      for (std::size_t i = 0; i < step.record.scalars.size(); ++i) {
        if (!step.record.scalars[i].IsRuntime()) continue;
        group.scalars.push_back({static_cast<std::int32_t>(group.steps.size()),
                                 static_cast<std::int32_t>(i)});
      }
      group.steps.push_back(&step);
    }
    return group;
  }

  // Every slot of the group, and whether something behind it needs it.
  std::vector<GroupSlot> GroupSlots(const std::vector<std::uint32_t>& steps) {
    absl::flat_hash_map<std::int32_t, std::uint32_t> here;
    std::vector<std::int32_t> born;
    for (const std::uint32_t s : steps) {
      for (const std::int32_t slot : SlotsOf(steps_[s])) ++here[slot];
      for (const ResultRecord& r : input_.steps[s].record.results) {
        if (r.kind == ResultRecord::Kind::kFresh) born.push_back(r.slot);
      }
      for (const ArgRecord& a : input_.steps[s].record.args) {
        const auto filled = filled_by_.find(a.slot);
        if (filled != filled_by_.end() && filled->second == s) {
          born.push_back(a.slot);
        }
      }
    }
    std::vector<GroupSlot> slots;
    for (const auto& [slot, uses] : here) {
      const SegmentSlot& info = input_.slots[slot];
      GroupSlot g;
      g.slot = slot;
      g.bytes = info.bytes;
      g.born_here = std::find(born.begin(), born.end(), slot) != born.end();
      g.needed_after = info.live_out || uses_[slot] > uses;
      slots.push_back(g);
    }
    std::sort(slots.begin(), slots.end(),
              [](const auto& a, const auto& b) { return a.slot < b.slot; });
    return slots;
  }

  bool Fail(const std::vector<std::uint32_t>& steps, std::string reason) {
    if (dump_ != nullptr) dump_->AddFailure(steps, reason);
    ++code_.failed;
    code_.reasons.push_back(std::move(reason));
    return false;
  }

  bool KeepsLimits(const std::vector<std::uint32_t>& steps) {
    if (limits_.stop != nullptr && limits_.stop->load()) {
      return Fail(steps, "tjit stopped compiling");
    }
    if (std::chrono::steady_clock::now() > limits_.deadline) {
      return Fail(steps, "the sequence took longer to compile than it may");
    }
    return true;
  }

  bool CompileGroup(const std::vector<std::uint32_t>& steps,
                    CompiledGroup* group) {
    const std::vector<GroupStep> lowering = LoweringSteps(steps);
    const std::vector<GroupSlot> slots = GroupSlots(steps);
    GroupKey key(context_, lowering, slots);
    // A dump shows all stages of each group.
    const KnownGroup* known =
        dump_ == nullptr ? cache_->groups()->Find(key) : nullptr;
    bool is_new = false;
    if (known == nullptr) {
      KnownGroup made = MakeGroup(steps, key, &group->dump_number, &is_new);
      known = &cache_->groups()->Add(key, std::move(made));
    }
    if (known->kernel == nullptr) return Fail(steps, known->why_not);
    Bind(steps, key, *known, group);
    ++(is_new ? code_.compiled : code_.reused);
    return true;
  }

  // Lowers the group for MakeGroup(), and runs the passes for its kernel.
  void ForeseeGroup(const std::vector<std::uint32_t>& steps) {
    const std::vector<GroupStep> lowering = LoweringSteps(steps);
    const std::vector<GroupSlot> slots = GroupSlots(steps);
    GroupKey key(context_, lowering, slots);
    GroupMemo& groups = *cache_->groups();
    if (groups.Find(key) != nullptr || groups.IsForeseen(key)) return;
    Lowered lowered;
    if (std::string why; !Lower(lowering, slots, &lowered, &why)) return;
    cache_->Foresee(lowered.function, engine_);
    groups.Foresee(std::move(key), std::move(lowered));
  }

  // Lowers the group and finds its kernel; *is_new: it was generated.
  KnownGroup MakeGroup(const std::vector<std::uint32_t>& steps,
                       const GroupKey& key, int* dump_number, bool* is_new) {
    KnownGroup made;
    Lowered lowered;
    if (!cache_->groups()->TakeForeseen(key, &lowered) &&
        !Lower(LoweringSteps(steps), GroupSlots(steps), &lowered,
               &made.why_not)) {
      return made;
    }
    if (dump_ != nullptr) *dump_number = dump_->BeginGroup(steps, lowered);
    bool was_there = false;
    const KernelCache::Entry& entry =
        cache_->For(lowered.function, engine_, &was_there, dump_);
    made.why_not = entry.why_not;
    if (entry.kernel == nullptr) return made;
    for (const SizeSource& source : lowered.symbols) {
      const StepRecord& record = input_.steps[steps[source.step]].record;
      made.shape.symbols.push_back(
          record.args[source.arg].geometry.sizes[source.dim]);
    }
    if (!entry.kernel->Shape(&made.shape, &made.why_not)) return made;
    made.kernel = entry.kernel;
    made.reads = key.ToNumbers(lowered.external_slots);
    const std::vector<std::int32_t> returns =
        key.ToNumbers(lowered.return_slots);
    for (const ir::WriteBack& write : lowered.function.writes) {
      made.writes.push_back(
          made.reads[static_cast<std::size_t>(write.to.value)]);
    }
    made.writes.insert(made.writes.end(), returns.begin(), returns.end());
    made.memory = made.reads;
    made.memory.insert(made.memory.end(), returns.begin(), returns.end());
    made.in_place = entry.kernel->in_place();
    made.scalars = std::move(lowered.scalars);
    *is_new = !was_there && entry.kernel->is_generated();
    return made;
  }

  bool CompileSteps(const std::vector<std::uint32_t>& steps,
                    CompiledGroup* group, std::string* why) {
    const StepGroup input = MakeStepGroup(steps);
    group->kernel = engine_->steps()->Compile(input, why);
    if (group->kernel == nullptr) return false;
    if (dump_ != nullptr) {
      group->dump_number =
          dump_->AddStepGroup(steps, group->kernel->CodeText());
    }
    group->reads = input.externals;
    group->writes = input.returns;
    for (const std::int32_t slot : input.externals) {
      const auto writes = [&](std::uint32_t s) {
        const std::vector<std::int32_t>& w = steps_[s].writes;
        return std::find(w.begin(), w.end(), slot) != w.end();
      };
      if (std::any_of(steps.begin(), steps.end(), writes)) {
        group->writes.push_back(slot);
      }
    }
    group->memory = input.externals;
    group->memory.insert(group->memory.end(), input.returns.begin(),
                         input.returns.end());
    BindScalars(steps, input.scalars, group);
    ++code_.compiled;
    return true;
  }

  // Where the group finds its memory, sizes and scalars in a run.
  void Bind(const std::vector<std::uint32_t>& steps, const GroupKey& key,
            const KnownGroup& known, CompiledGroup* group) {
    group->kernel = known.kernel;
    group->shape = known.shape;
    group->reads = key.ToSlots(known.reads);
    group->writes = key.ToSlots(known.writes);
    group->memory = key.ToSlots(known.memory);
    for (const InPlace& pair : known.in_place) {
      group->in_place.emplace_back(
          group->memory[group->reads.size() +
                        static_cast<std::size_t>(pair.returned)],
          group->memory[static_cast<std::size_t>(pair.external)]);
    }
    BindScalars(steps, known.scalars, group);
  }

  void BindScalars(const std::vector<std::uint32_t>& steps,
                   const std::vector<ScalarSource>& scalars,
                   CompiledGroup* group) {
    for (const ScalarSource& source : scalars) {
      group->scalars.push_back(input_.steps[steps[source.step]].scalar_begin +
                               static_cast<std::uint32_t>(source.index));
    }
    for (const std::uint32_t s : steps) {
      const SegmentStep& step = input_.steps[s];
      group->steps.push_back(step.index);
      const StepRecord& record = scalars_.RecordOf(s);
      for (std::uint32_t i = 0; i < record.scalars.size(); ++i) {
        const ScalarRecord& scalar = record.scalars[i];
        if (!scalar.may_vary || scalar.runtime) continue;
        group->baked.push_back({step.scalar_begin + i, scalar.value});
      }
    }
  }

  const SegmentInput& input_;
  Engine* const engine_;
  KernelCache* const cache_;
  const CompileLimits limits_;
  SegmentDump* const dump_;  // may be null
  VariedScalars scalars_;
  const std::string context_;  // what decides besides the steps
  std::vector<PartitionStep> steps_;
  std::vector<std::uint32_t> uses_;  // by slot: steps that use it
  // Slots from outside of which only what a step of the segment fills is used,
  // and that step.
  absl::flat_hash_map<std::int32_t, std::uint32_t> filled_by_;
  SegmentCode code_;
};

}  // namespace

SegmentCode CompileSegment(const SegmentInput& input, Engine* engine,
                           KernelCache* cache, const CompileLimits& limits,
                           SegmentDump* dump) {
  SegmentCode code =
      SegmentCompiler(input, engine, cache, limits, dump).Run();
  if (dump != nullptr) code.dump_number = dump->number();
  return code;
}

bool ForeseeSegment(const SegmentInput& input, Engine* engine,
                    KernelCache* cache, const std::atomic<bool>& stop) {
  return SegmentCompiler(input, engine, cache, CompileLimits(), nullptr)
      .Foresee(stop);
}

}  // namespace tjit

#include "compiler/segment_code.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/ir/ir_text.h"
#include "compiler/ir/verifier.h"
#include "compiler/lower/partition.h"
#include "compiler/passes/passes.h"
#include "compiler/segment_dump.h"
#include "compiler/step_engine.h"
#include "recorder/overwrite.h"

namespace tjit {
namespace {

PartitionStep DescribeStep(const SegmentStep& step) {
  PartitionStep p;
  p.is_list = step.op.find("_foreach_") != std::string_view::npos ||
              step.op.find("_fused_") != std::string_view::npos;
  for (const ArgRecord& arg : step.record.args) {
    if (arg.slot == kNoSlot) continue;
    p.reads.push_back(arg.slot);
    if (arg.written) p.writes.push_back(arg.slot);
    p.elements = std::max(p.elements, arg.geometry.numel());
  }
  for (const ResultRecord& result : step.record.results) {
    if (result.kind != ResultRecord::Kind::kFresh) continue;
    p.writes.push_back(result.slot);
    p.elements = std::max(p.elements, result.geometry.numel());
  }
  return p;
}

class SegmentCompiler {
 public:
  SegmentCompiler(const SegmentInput& input, Engine* engine,
                  KernelCache* cache, const CompileLimits& limits,
                  SegmentDump* dump)
      : input_(input),
        engine_(engine),
        cache_(cache),
        limits_(limits),
        dump_(dump) {}

  SegmentCode Run() {
    for (const SegmentStep& step : input_.steps) {
      steps_.push_back(DescribeStep(step));
    }
    CountUses();
    for (std::uint32_t s = 0; s < steps_.size(); ++s) {
      steps_[s].is_lowerable = CanCompile(s);
      // Loops want steps of equal extent together, graphs all that may be.
      if (engine_->steps() != nullptr) steps_[s].elements = 0;
    }
    for (const PartitionItem& item : Partition(steps_)) {
      if (!item.is_group) {
        AddCalls(item.steps);
      } else if (engine_->steps() == nullptr) {
        AddGroup(item.steps);
      } else {
        for (const auto& part : ByContext(item.steps)) AddStepGroup(part);
      }
    }
    return std::move(code_);
  }

 private:
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

  // Cut where the context changes.
  std::vector<std::vector<std::uint32_t>> ByContext(
      const std::vector<std::uint32_t>& steps) const {
    std::vector<std::vector<std::uint32_t>> parts;
    for (const std::uint32_t s : steps) {
      const std::uint32_t context = input_.steps[s].record.context;
      if (parts.empty() ||
          input_.steps[parts.back()[0]].record.context != context) {
        parts.emplace_back();
      }
      parts.back().push_back(s);
    }
    return parts;
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

  static std::vector<std::int32_t> SlotsOf(const PartitionStep& step) {
    std::vector<std::int32_t> slots = step.reads;
    slots.insert(slots.end(), step.writes.begin(), step.writes.end());
    std::sort(slots.begin(), slots.end());
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
    return slots;
  }

  // A group of this step alone could be compiled.
  bool CanCompile(std::uint32_t s) {
    if (engine_->steps() != nullptr) return CanTakeStep(s);
    const GroupStep step{&input_.steps[s].record, input_.steps[s].op,
                         input_.threads};
    if (!CanLower(step)) return false;
    Lowered lowered;
    std::string reason;
    return Lower({step}, GroupSlots({s}), &lowered, &reason) &&
           (input_.has_usual_arithmetic ||
            !NeedsUsualArithmetic(lowered.function)) &&
           engine_->WhyNot(lowered.function).empty();
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
    std::vector<GroupStep> lowering;
    for (const std::uint32_t s : steps) {
      lowering.push_back(
          {&input_.steps[s].record, input_.steps[s].op, input_.threads});
    }
    Lowered lowered;
    std::string reason;
    if (!Lower(lowering, GroupSlots(steps), &lowered, &reason)) {
      return Fail(steps, std::move(reason));
    }
    if (dump_ != nullptr) {
      group->dump_number = dump_->BeginGroup(steps, lowered);
    }
    bool was_there = false;
    const KernelCache::Entry& entry =
        cache_->For(lowered.function, engine_, &was_there, dump_);
    if (entry.kernel == nullptr) return Fail(steps, entry.why_not);
    group->kernel = entry.kernel;
    if (!Bind(steps, lowered, group, &reason)) {
      return Fail(steps, std::move(reason));
    }
    const bool is_new = !was_there && entry.kernel->is_generated();
    ++(is_new ? code_.compiled : code_.reused);
    return true;
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
  bool Bind(const std::vector<std::uint32_t>& steps, const Lowered& lowered,
            CompiledGroup* group, std::string* why) {
    group->reads = lowered.external_slots;
    for (const ir::WriteBack& write : lowered.function.writes) {
      group->writes.push_back(
          lowered.external_slots[static_cast<std::size_t>(write.to.value)]);
    }
    group->writes.insert(group->writes.end(), lowered.return_slots.begin(),
                         lowered.return_slots.end());
    group->memory = lowered.external_slots;
    group->memory.insert(group->memory.end(), lowered.return_slots.begin(),
                         lowered.return_slots.end());
    for (const SizeSource& source : lowered.symbols) {
      const StepRecord& record = input_.steps[steps[source.step]].record;
      group->shape.symbols.push_back(
          record.args[source.arg].geometry.sizes[source.dim]);
    }
    BindScalars(steps, lowered.scalars, group);
    return group->kernel->Shape(&group->shape, why);
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
      for (std::uint32_t i = 0; i < step.record.scalars.size(); ++i) {
        const ScalarRecord& scalar = step.record.scalars[i];
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
  std::vector<PartitionStep> steps_;
  std::vector<std::uint32_t> uses_;  // by slot: steps that use it
  // Slots from outside of which only what a step of the segment fills is used,
  // and that step.
  absl::flat_hash_map<std::int32_t, std::uint32_t> filled_by_;
  SegmentCode code_;
};

PassOptions OptionsFor(SegmentDump* dump) {
  PassOptions options;
  if (dump == nullptr) return options;
  options.observer = [dump](const PassInfo& pass, const ir::Function& before,
                            const ir::Function& after) {
    dump->AddPass(pass.name, before, after);
  };
  return options;
}

KernelCache::Entry Compile(const ir::Function& function, Engine* engine,
                           SegmentDump* dump) {
  KernelCache::Entry entry;
  const std::vector<std::string> wrong = ir::Verify(function);
  ir::Function simpler = function;
  if (!wrong.empty()) {
    entry.why_not = "lowering made a function that is none: " + wrong[0];
  } else {
    entry.why_not = RunPasses(Passes(), &simpler, OptionsFor(dump));
  }
  if (entry.why_not.empty()) {
    simpler.name = KernelName(simpler);
    if (dump != nullptr) dump->AddFinal(simpler);
    entry.kernel = engine->Compile(simpler, &entry.why_not);
  }
  if (dump != nullptr) {
    entry.dumped = dump->where();
    if (entry.kernel != nullptr) dump->AddCode(entry.kernel->CodeText());
  }
  return entry;
}

}  // namespace

const KernelCache::Entry& KernelCache::For(const ir::Function& function,
                                           Engine* engine, bool* was_there,
                                           SegmentDump* dump) {
  std::string text = absl::StrCat(engine->name(), "\n", ir::Print(function));
  const auto found = entries_.find(text);
  *was_there = found != entries_.end();
  if (*was_there) {
    if (dump != nullptr && found->second.kernel != nullptr) {
      dump->AddReuse(found->second.dumped);
    }
    return found->second;
  }
  if (entries_.size() >= kMaxEntries) entries_.clear();
  return entries_.emplace(std::move(text), Compile(function, engine, dump))
      .first->second;
}

SegmentCode CompileSegment(const SegmentInput& input, Engine* engine,
                           KernelCache* cache, const CompileLimits& limits,
                           SegmentDump* dump) {
  SegmentCode code =
      SegmentCompiler(input, engine, cache, limits, dump).Run();
  if (dump != nullptr) code.dump_number = dump->number();
  return code;
}

}  // namespace tjit

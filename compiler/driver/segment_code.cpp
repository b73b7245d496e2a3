#include "compiler/driver/segment_code.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/driver/segment_dump.h"
#include "compiler/driver/segment_steps.h"
#include "compiler/driver/step_engine.h"
#include "compiler/driver/varied_scalars.h"
#include "compiler/lower/partition.h"
#include "compiler/lower/symbolic_match.h"
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
    if (engine_->steps() != nullptr) {
      CompileStepGroups();
      return std::move(code_);
    }
    const GroupKey key = KeyWithoutSizes();
    if (dump_ != nullptr || !cache_->shapes()->HasSeen(key)) {
      CompileGroups(nullptr);
      return std::move(code_);
    }
    CachedShape made;
    CompileGroups(&made);
    if (made.IsWhole()) cache_->shapes()->Add(key, std::move(made));
    return std::move(code_);
  }

  // The shape pass: the same groups, functions and kernels as in other sizes,
  // if all of them are those of these sizes, too; else nothing.
  std::optional<SegmentCode> RunFromShapeCache() {
    // A dump shows all stages.
    if (engine_->steps() != nullptr || dump_ != nullptr) return std::nullopt;
    DescribeSteps();
    const CachedShape* const cached = cache_->shapes()->Find(KeyWithoutSizes());
    if (cached == nullptr || !IsStillSorted(*cached) ||
        !CompileFromShape(*cached)) {
      return std::nullopt;
    }
    return std::move(code_);
  }

  bool Precompile(const std::atomic<bool>& stop) {
    DescribeSteps();
    for (std::uint32_t s = 0; s < steps_.size(); ++s) {
      if (stop.load()) return false;
      FindLowerable(s);
    }
    for (const PartitionItem& item : Partition(steps_)) {
      if (stop.load()) return false;
      if (item.is_group) PrecompileGroup(item.steps);
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

  // True if the step's numbers had to be compiled in.
  bool FindLowerable(std::uint32_t s) {
    steps_[s].is_lowerable = CanCompile(s);
    if (steps_[s].is_lowerable || !scalars_.Has(s)) return false;
    scalars_.Bake(s);
    steps_[s].is_lowerable = CanCompile(s);
    return true;
  }

  void CompileStepGroups() {
    for (std::uint32_t s = 0; s < steps_.size(); ++s) {
      FindLowerable(s);
      // Loops want steps of equal extent together, graphs all that may be.
      steps_[s].elements = 0;
    }
    for (const PartitionItem& item : Partition(steps_)) {
      if (!item.is_group) {
        AddCalls(item.steps);
        continue;
      }
      for (const auto& part : ByContext(input_, item.steps)) AddStepGroup(part);
    }
  }

  // `made`: gets what the next sizes need, if it is not null.
  void CompileGroups(CachedShape* made) {
    for (std::uint32_t s = 0; s < steps_.size(); ++s) {
      const bool is_baked = FindLowerable(s);
      if (made == nullptr) continue;
      made->lowerable.push_back(steps_[s].is_lowerable);
      if (is_baked) made->baked.push_back(s);
    }
    std::vector<PartitionItem> items = Partition(steps_);
    for (const PartitionItem& item : items) {
      if (!item.is_group) {
        AddCalls(item.steps);
        continue;
      }
      CachedShape::Group general;
      AddGroup(item.steps, made == nullptr ? nullptr : &general);
      if (made != nullptr) made->groups.push_back(std::move(general));
    }
    if (made != nullptr) made->items = std::move(items);
  }

  GroupKey KeyWithoutSizes() const {
    std::vector<std::uint32_t> all(steps_.size());
    std::iota(all.begin(), all.end(), 0u);
    std::vector<GroupSlot> slots;
    for (std::size_t s = 0; s < input_.slots.size(); ++s) {
      if (uses_[s] == 0) continue;
      slots.push_back(
          {static_cast<std::int32_t>(s), 0, false, input_.slots[s].live_out});
    }
    return {context_, LoweringSteps(all), slots, GroupKey::Sizes::kLeftOut};
  }

  // False if a step that could not be lowered in the sizes of `cached` can be.
  bool IsStillSorted(const CachedShape& cached) {
    for (std::uint32_t s = 0; s < steps_.size(); ++s) {
      if (cached.lowerable[s]) continue;
      FindLowerable(s);
      if (steps_[s].is_lowerable) return false;
    }
    return true;
  }

  bool CompileFromShape(const CachedShape& cached) {
    for (const std::uint32_t s : cached.baked) scalars_.Bake(s);
    auto other = cached.groups.begin();
    for (const PartitionItem& item : cached.items) {
      if (!item.is_group) {
        AddCalls(item.steps);
        continue;
      }
      CompiledGroup group;
      if (!CompileGroupFromShape(*other++, item.steps, &group)) return false;
      Append(std::move(group));
    }
    return true;
  }

  void AddCalls(const std::vector<std::uint32_t>& steps) {
    for (const std::uint32_t s : steps) {
      code_.order.push_back({-1, input_.steps[s].index});
    }
  }

  // `general`: gets what other sizes need, if it is not null. Long rows of
  // several steps may not fit a loop's buffers together: then in two groups.
  void AddGroup(const std::vector<std::uint32_t>& steps,
                CachedShape::Group* general) {
    if (!KeepsLimits(steps)) return AddCalls(steps);
    CompiledGroup group;
    const CachedGroup& cached = CompileGroup(steps, general, &group);
    if (cached.kernel != nullptr) return Append(std::move(group));
    if (!cached.is_too_large || steps.size() <= 2) {
      Fail(steps, cached.why_not);
      return AddCalls(steps);
    }
    if (dump_ != nullptr) dump_->AddCut(steps, cached.why_not);
    const auto half = steps.begin() + (steps.size() + 1) / 2;
    AddGroup({steps.begin(), half}, nullptr);
    if (steps.end() - half == 1) return AddCalls({*half});
    AddGroup({half, steps.end()}, nullptr);
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

  // Without a kernel *group is as it was. Valid until the next group.
  const CachedGroup& CompileGroup(const std::vector<std::uint32_t>& steps,
                                  CachedShape::Group* general,
                                  CompiledGroup* group) {
    const std::vector<GroupStep> lowering = LoweringSteps(steps);
    const std::vector<GroupSlot> slots = GroupSlots(steps);
    GroupKey key(context_, lowering, slots);
    // A dump shows all stages of each group.
    const CachedGroup* cached =
        dump_ == nullptr ? cache_->groups()->Find(key) : nullptr;
    bool is_new = false;
    if (cached == nullptr) {
      cached =
          &cache_->groups()->Add(key, MakeGroup(steps, key, general != nullptr,
                                                &group->dump_number, &is_new));
    }
    if (cached->kernel == nullptr) return *cached;
    if (general != nullptr) *general = {cached->general, cached->kernel};
    Bind(steps, key, *cached, group);
    ++(is_new ? code_.compiled : code_.reused);
    return *cached;
  }

  // False if the group of other sizes is not that of these, with its kernel.
  bool CompileGroupFromShape(const CachedShape::Group& other,
                             const std::vector<std::uint32_t>& steps,
                             CompiledGroup* group) {
    const std::vector<GroupStep> lowering = LoweringSteps(steps);
    const std::vector<GroupSlot> slots = GroupSlots(steps);
    GroupKey key(context_, lowering, slots);
    const CachedGroup* cached = cache_->groups()->Find(key);
    if (cached == nullptr) {
      CachedGroup made;
      if (!MakeFromShape(other, lowering, slots, key, &made)) return false;
      cached = &cache_->groups()->Add(key, std::move(made));
    }
    if (cached->kernel == nullptr) return false;
    Bind(steps, key, *cached, group);
    ++code_.reused;
    return true;
  }

  // Lowers the group for MakeGroup(), and runs the passes for its kernel.
  void PrecompileGroup(const std::vector<std::uint32_t>& steps) {
    const std::vector<GroupStep> lowering = LoweringSteps(steps);
    const std::vector<GroupSlot> slots = GroupSlots(steps);
    GroupKey key(context_, lowering, slots);
    GroupCache& groups = *cache_->groups();
    if (groups.Find(key) != nullptr || groups.IsPrecompiled(key)) return;
    Lowered lowered;
    if (std::string why; !Lower(lowering, slots, &lowered, &why)) return;
    cache_->Precompile(lowered.function, engine_);
    groups.AddPrecompiled(std::move(key), std::move(lowered));
  }

  // The same function and kernel as in other sizes, if it is the function that
  // these sizes are lowered to.
  static bool MakeFromShape(const CachedShape::Group& other,
                            const std::vector<GroupStep>& steps,
                            const std::vector<GroupSlot>& slots,
                            const GroupKey& key, CachedGroup* made) {
    const Lowered& general = *other.general;
    Lowered numbers;
    if (!LowerNumbers(steps, slots, &numbers, &made->why_not) ||
        key.ToNumbers(numbers.external_slots) != general.external_slots ||
        key.ToNumbers(numbers.return_slots) != general.return_slots ||
        numbers.scalars != general.scalars) {
      return false;
    }
    made->shape.symbols = SizesOf(general.symbols, steps);
    if (!MatchesAt(made->shape.symbols, general.function, numbers.function) ||
        !other.kernel->Shape(&made->shape, &made->why_not)) {
      return false;
    }
    SetUp(general, other.kernel, made);
    made->general = other.general;
    return true;
  }

  // `lowered`: its slots are by number.
  static void SetUp(const Lowered& lowered,
                    const std::shared_ptr<const Kernel>& kernel,
                    CachedGroup* made) {
    made->kernel = kernel;
    made->reads = made->memory = lowered.external_slots;
    const std::vector<std::int32_t>& returns = lowered.return_slots;
    for (const ir::WriteBack& write : lowered.function.writes) {
      made->writes.push_back(
          made->reads[static_cast<std::size_t>(write.to.value)]);
    }
    made->writes.insert(made->writes.end(), returns.begin(), returns.end());
    made->memory.insert(made->memory.end(), returns.begin(), returns.end());
    made->in_place = kernel->in_place();
    made->scalars = lowered.scalars;
  }

  // Lowers the group and finds its kernel; *is_new: it was generated. `keeps`:
  // the function stays there, for other sizes.
  CachedGroup MakeGroup(const std::vector<std::uint32_t>& steps,
                        const GroupKey& key, bool keeps, int* dump_number,
                        bool* is_new) {
    CachedGroup made;
    Lowered lowered;
    if (!cache_->groups()->AcquirePrecompiled(key, &lowered) &&
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
    made.shape.symbols = SizesOf(lowered.symbols, LoweringSteps(steps));
    if (!entry.kernel->Shape(&made.shape, &made.why_not)) {
      made.is_too_large = true;
      return made;
    }
    lowered.external_slots = key.ToNumbers(lowered.external_slots);
    lowered.return_slots = key.ToNumbers(lowered.return_slots);
    SetUp(lowered, entry.kernel, &made);
    *is_new = !was_there && entry.kernel->is_generated();
    if (keeps) made.general = std::make_shared<Lowered>(std::move(lowered));
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
            const CachedGroup& cached, CompiledGroup* group) {
    group->kernel = cached.kernel;
    group->shape = cached.shape;
    group->reads = key.ToSlots(cached.reads);
    group->writes = key.ToSlots(cached.writes);
    group->memory = key.ToSlots(cached.memory);
    for (const InPlace& pair : cached.in_place) {
      group->in_place.emplace_back(
          group->memory[group->reads.size() +
                        static_cast<std::size_t>(pair.returned)],
          group->memory[static_cast<std::size_t>(pair.external)]);
    }
    BindScalars(steps, cached.scalars, group);
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
  if (std::optional<SegmentCode> code =
          SegmentCompiler(input, engine, cache, limits, dump)
              .RunFromShapeCache()) {
    return *std::move(code);
  }
  SegmentCode code =
      SegmentCompiler(input, engine, cache, limits, dump).Run();
  if (dump != nullptr) code.dump_number = dump->number();
  return code;
}

bool PrecompileSegment(const SegmentInput& input, Engine* engine,
                       KernelCache* cache, const std::atomic<bool>& stop) {
  return SegmentCompiler(input, engine, cache, CompileLimits(), nullptr)
      .Precompile(stop);
}

}  // namespace tjit

#include "compiler/driver/segment_code.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/driver/segment_compiler.h"
#include "compiler/driver/segment_dump.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/partition.h"
#include "compiler/lower/symbolic_match.h"
#include "recorder/overwrite.h"

namespace tjit {
namespace {

// Lowers each group to a function, which the engine compiles.
class FunctionSegmentCompiler : public SegmentCompiler {
 public:
  FunctionSegmentCompiler(const SegmentInput& input, Engine* engine,
                          KernelCache* cache, const CompileLimits& limits,
                          SegmentDump* dump)
      : SegmentCompiler(input, limits, dump, /*finds_varied=*/true),
        engine_(engine),
        cache_(cache),
        context_(absl::StrCat(engine->name(),
                              input.has_usual_arithmetic ? "" : " unusual")) {}

  SegmentCode Run() {
    DescribeSteps();
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
    if (dump_ != nullptr) return std::nullopt;
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

  bool Fills(const StepRecord& record, std::int32_t slot) const override {
    const SegmentSlot& info = input_.slots[slot];
    return !info.live_out && !record.args.empty() &&
           record.args[0].slot == slot &&
           OverwritesAll(record, record.args[0], info.bytes);
  }

  bool CanCompile(std::uint32_t s) override {
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
    const GeneralGroup& general = *other.general;
    Lowered numbers;
    if (!LowerNumbers(steps, slots, &numbers, &made->why_not) ||
        key.ToNumbers(numbers.external_slots) != general.external_slots ||
        key.ToNumbers(numbers.return_slots) != general.return_slots ||
        numbers.scalars != general.scalars) {
      return false;
    }
    made->shape.symbols = SizesOf(general.symbols, steps);
    if (!MatchesAt(made->shape.symbols, general.kept->function,
                   numbers.function) ||
        !other.kernel->Shape(&made->shape, &made->why_not)) {
      return false;
    }
    SetUp(general, other.kernel, made);
    made->general = other.general;
    return true;
  }

  static void SetUp(const GeneralGroup& general,
                    const std::shared_ptr<const Kernel>& kernel,
                    CachedGroup* made) {
    made->kernel = kernel;
    made->reads = made->memory = general.external_slots;
    const std::vector<std::int32_t>& returns = general.return_slots;
    for (const ir::WriteBack& write : general.kept->function.writes) {
      made->writes.push_back(
          made->reads[static_cast<std::size_t>(write.to.value)]);
    }
    made->writes.insert(made->writes.end(), returns.begin(), returns.end());
    made->memory.insert(made->memory.end(), returns.begin(), returns.end());
    made->in_place = kernel->in_place();
    made->scalars = general.scalars;
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
    KernelCache::Entry& entry =
        cache_->For(lowered.function, engine_, &was_there, dump_);
    made.why_not = entry.why_not;
    if (entry.kernel == nullptr) return made;
    made.shape.symbols = SizesOf(lowered.symbols, LoweringSteps(steps));
    if (!entry.kernel->Shape(&made.shape, &made.why_not)) {
      made.is_too_large = true;
      return made;
    }
    GeneralGroup general{entry.Share(std::move(lowered.function)),
                         key.ToNumbers(lowered.external_slots),
                         key.ToNumbers(lowered.return_slots),
                         std::move(lowered.scalars),
                         std::move(lowered.symbols)};
    SetUp(general, entry.kernel, &made);
    *is_new = !was_there && entry.kernel->is_generated();
    if (keeps) {
      made.general = std::make_shared<const GeneralGroup>(std::move(general));
    }
    return made;
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

  Engine* const engine_;
  KernelCache* const cache_;
  const std::string context_;  // what decides besides the steps
};

}  // namespace

SegmentCode Engine::CompileSegment(const SegmentInput& input,
                                   KernelCache* cache,
                                   const CompileLimits& limits,
                                   SegmentDump* dump) {
  if (std::optional<SegmentCode> code =
          FunctionSegmentCompiler(input, this, cache, limits, dump)
              .RunFromShapeCache()) {
    return *std::move(code);
  }
  return FunctionSegmentCompiler(input, this, cache, limits, dump).Run();
}

bool Engine::PrecompileSegment(const SegmentInput& input, KernelCache* cache,
                               const std::atomic<bool>& stop) {
  return FunctionSegmentCompiler(input, this, cache, CompileLimits(), nullptr)
      .Precompile(stop);
}

SegmentCode CompileSegment(const SegmentInput& input, Engine* engine,
                           KernelCache* cache, const CompileLimits& limits,
                           SegmentDump* dump) {
  SegmentCode code = engine->CompileSegment(input, cache, limits, dump);
  if (dump != nullptr) code.dump_number = dump->number();
  return code;
}

bool PrecompileSegment(const SegmentInput& input, Engine* engine,
                       KernelCache* cache, const std::atomic<bool>& stop) {
  return engine->PrecompileSegment(input, cache, stop);
}

}  // namespace tjit

#include "runtime/segment/segment_variant.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/driver/segment_dump.h"
#include "compiler/program/step_order.h"
#include "recorder/explanation.h"
#include "recorder/schema_key.h"
#include "runtime/platform/fp_environment.h"
#include "runtime/platform/parallel.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/platform/thread_context.h"
#include "runtime/report/asked_sequences.h"
#include "runtime/report/code_observer.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log.h"
#include "runtime/report/own_span.h"
#include "runtime/report/sequence_name.h"
#include "runtime/report/stance.h"
#include "runtime/tier2/hot_profile.h"
#include "runtime/tier2/llvm_engine.h"
#include "support/env.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t StepsOf(const SegmentCode& code) {
  return code.steps_fused +
         static_cast<std::int64_t>(code.order.size() - code.groups.size());
}

// Of a row of the instruction log; the last of its details, as it has spaces.
std::string WhyNotText(const SegmentCode& code) {
  if (code.reasons.empty()) return {};
  return absl::StrCat(" failed=", code.reasons.size(),
                      " why=", code.reasons.front());
}

}  // namespace

std::size_t KeptBytesOf(const Executable& executable) {
  const MemoryPlan& plan = executable.plan();
  return sizeof(executable) + executable.step_count() * sizeof(ProgramStep) +
         HeapOf(plan.needed) + HeapOf(plan.placements) + HeapOf(plan.scratch);
}

std::size_t Tier2Variant::KeptBytes() const {
  std::size_t bytes = sizeof(*this) + HeapOf(ways_) + HeapOf(groups_);
  if (executable_ != nullptr) bytes += KeptBytesOf(*executable_);
  for (const BoundGroup& group : groups_) {
    bytes += HeapOf(group.memory) + HeapOf(group.scalars);
  }
  if (state_ != State::kCompiled) return bytes;  // the worker may write it
  bytes += HeapOf(task_->code.order) + HeapOf(task_->code.groups);
  for (const CompiledGroup& group : task_->code.groups) {
    bytes += HeapOf(group.steps) + HeapOf(group.memory) +
             HeapOf(group.scalars) + HeapOf(group.shape.symbols) +
             HeapOf(group.shape.numbers) + HeapOf(group.reads) +
             HeapOf(group.writes);
  }
  return bytes;
}

Tier2Variant::Running::Running(PreparedSegment* segment,
                               PreparedSegment::Variant* variant,
                               const tjit::runtime::Run& run,
                               Counters* counters)
    : segment_(segment), variant_(variant), counters_(counters) {
  if (segment->engine() != nullptr && variant->executable->step_count() > 1) {
    if (variant->tier2 == nullptr) {
      variant->tier2 = std::make_unique<Tier2Variant>();
    }
    tier2_ = variant->tier2.get();
    is_compiled_ = tier2_->Prepare(segment, variant, run, counters);
  }
}

Tier2Variant::Running::Running(PreparedSegment* segment,
                               PreparedSegment::Variant* variant,
                               bool is_compiled, Counters* counters)
    : segment_(segment),
      variant_(variant),
      counters_(counters),
      tier2_(variant->tier2.get()),
      is_compiled_(is_compiled) {}

void Tier2Variant::Running::Count() const {
  counters_->steps_dead.Add(static_cast<std::int64_t>(
      segment_->nodes_.size() - variant_->executable->step_count()));
  if (!is_compiled_) {
    counters_->replays_tier1.Add();
    return;
  }
  counters_->replays_tier2.Add();
  counters_->groups_run.Add(static_cast<std::int64_t>(tier2_->groups_.size()));
  counters_->steps_fused.Add(tier2_->task_->code.steps_fused);
  ObserveGroups(tier2_->task_->code, segment_->nodes_, segment_->slot_bytes_);
}

// While runs with and without the code take turns, both have as much: two sizes
// in turn would drive each other out of the cache of blocks.
std::uint64_t Tier2Variant::Running::arena_bytes() const {
  const std::uint64_t library = variant_->executable->arena_bytes();
  if (tier2_ == nullptr || tier2_->executable_ == nullptr) return library;
  const std::uint64_t bytes = tier2_->executable_->arena_bytes();
  const CodeTrial& trial = *tier2_->trial_;
  if (trial.takes_turns() && !trial.is_over()) return std::max(library, bytes);
  return is_compiled_ ? bytes : library;
}

void Tier2Variant::Running::Run(char** slots, const ScalarValue* scalars,
                                char* arena) {
  Count();
  const Executable* executable = variant_->executable.get();
  if (is_compiled_) executable = tier2_->executable_.get();
  const bool measured = tier2_ != nullptr && tier2_->state_ != State::kOff &&
                        !tier2_->trial_->is_over();
  if (!measured) return executable->Run(slots, scalars, arena);
  const auto began = Clock::now();
  executable->Run(slots, scalars, arena);
  const std::chrono::nanoseconds took = Clock::now() - began;
  tier2_->RecordTime(*segment_, is_compiled_,
                     static_cast<std::uint64_t>(took.count()), counters_);
}

// The defect of a lost write-back: what the group writes of another segment or
// the program is put back.
class Tier2Variant::OldContent {
 public:
  OldContent(bool planted, const PreparedSegment& segment,
             const CompiledGroup& group, char* const* slots) {
    if (!planted) return;
    for (const std::int32_t slot : group.writes) {
      if (segment.born_[slot] >= 0) continue;
      saved_.emplace_back(
          slots[slot], std::string(slots[slot], segment.slot_bytes_[slot]));
    }
  }
  ~OldContent() {
    for (const auto& [data, bytes] : saved_) {
      std::memcpy(data, bytes.data(), bytes.size());
    }
  }
  OldContent(const OldContent&) = delete;
  OldContent& operator=(const OldContent&) = delete;

 private:
  std::vector<std::pair<char*, std::string>> saved_;
};

void Tier2Variant::LendScratch(void* state, char* data, std::uint64_t) {
  static_cast<BoundGroup*>(state)->scratch = data;
}

void Tier2Variant::RunGroup(void* state, char* const* slots,
                            const ScalarValue* scalars) {
  auto& group = *static_cast<BoundGroup*>(state);
  const CompiledGroup& code = *group.code;
  group.segment->running_ = group.first;
  for (std::size_t i = 0; i < code.memory.size(); ++i) {
    group.memory[i] = slots[code.memory[i]];
  }
  if (!group.has_run || !Planted(Defect::kStaleKernelScalar)) {
    for (std::size_t i = 0; i < code.scalars.size(); ++i) {
      group.scalars[i] = scalars[code.scalars[i]];
    }
  }
  for (std::size_t i = 0; i < code.shape.scratch.size(); ++i) {
    group.memory[code.memory.size() + i] =
        group.scratch + code.shape.scratch[i];
  }
  group.has_run = true;
  const OldContent old(Planted(Defect::kLostWriteBack), *group.segment, code,
                       slots);
  code.kernel->Run(group.memory.data(), code.shape, group.scalars.data());
}

bool Tier2Variant::Prepare(PreparedSegment* segment,
                           PreparedSegment::Variant* variant,
                           const tjit::runtime::Run& run, Counters* counters) {
  Engine* const engine = segment->engine();
  if (engine != engine_) {
    SwitchOff();
    engine_ = engine;
    state_ = State::kCounting;
    recompiles_ = 0;
    StartTrial();
  }
  if (state_ == State::kCounting) {
    ++runs_;
    const auto steps = variant->executable->step_count();
    bool has_come = false;
    if (runs_ == 1) least_ns_ = LeastNs(*segment, *variant);
    if (IsTimeToAsk(*segment, steps)) {
      Ask(segment, variant, /*is_again=*/false, counters);
      has_come = state_ == State::kAsked && AwaitCodeOfOtherSizes(*segment);
    } else if (!is_precompiled_ && g_settings.may_compile() &&
               IsNearlyTimeToAsk(steps)) {
      is_precompiled_ = true;
      PrepareInBackground(engine_, &segment->compiler_.tier2->worker());
      if (engine_->can_precompile()) {
        segment->compiler_.tier2->Precompile(InputOf(*segment, *variant),
                                             engine_);
      }
    }
    // What did not wait runs without the code, however fast the worker was.
    if (!has_come) return false;
  }
  if (state_ == State::kAsked) PickUp(segment, variant);
  if (state_ != State::kCompiled) return false;
  const std::string_view stale = StaleScalar(*segment, run);
  if (!stale.empty()) {
    if (!g_settings.may_compile()) {  // the code is there for other runs
      RefuseCompile(counters, segment->nodes_[0]->step.op,
                    segment->nodes_[0]->id);
      return false;
    }
    SwitchOff();
    if (++recompiles_ > policy::kMaxRecompiles) {
      StopAwaiting(*segment);
      PrintCompile(
          absl::StrCat("Fallback: library calls, as the segment was compiled ",
                       policy::kMaxRecompiles, " times again"));
      return false;
    }
    PrintCompile(absl::StrCat("Recompiling: a scalar of ", std::string(stale),
                              " is not always the same"));
    StartTrial();
    Ask(segment, variant, /*is_again=*/true, counters);
    return false;
  }
  return MayServe(run);
}

bool Tier2Variant::WantsCode() const {
  return trial_->wants_code() && !(t_context.had_region && HasOddTeam());
}

bool Tier2Variant::IsSettled(const PreparedSegment& segment) const {
  return (state_ == State::kCompiled ? bakes_recorded_
                                     : state_ == State::kOff) &&
         engine_ == segment.engine() && PlantedDefect() == Defect::kNone;
}

Tier2Variant::Unbound::Unbound(PreparedSegment* segment, std::uint64_t user,
                               c10::ArrayRef<std::uint32_t> outside,
                               c10::ArrayRef<std::uint32_t> made)
    : segment_(segment) {
  if (segment == nullptr ||
      segment->last_variant_ >= segment->variants_.size()) {
    return;
  }
  PreparedSegment::Variant& variant =
      segment->variants_[segment->last_variant_];
  Tier2Variant* const tier2 = variant.tier2.get();
  if (variant.keeps_all || tier2 == nullptr || !tier2->IsSettled(*segment)) {
    return;
  }
  if (tier2->user_ != user) {
    if (!IsFor(*segment, variant, outside, made)) return;
    tier2->user_ = user;
  }
  variant_ = &variant;
  is_compiled_ = tier2->RunsCode();
  is_alone_ = is_compiled_ && tier2->is_alone_;
}

bool Tier2Variant::Unbound::IsFor(const PreparedSegment& segment,
                                  const PreparedSegment::Variant& variant,
                                  c10::ArrayRef<std::uint32_t> outside,
                                  c10::ArrayRef<std::uint32_t> made) {
  std::vector<std::uint8_t> live(segment.slot_bytes_.size());
  for (const auto [slot, fate] : segment.used_) live[slot] = fate;
  for (const c10::ArrayRef<std::uint32_t> slots : {outside, made}) {
    for (const std::uint32_t s : slots) {
      if (s >= live.size()) return false;
      live[s] = kSurvives;
    }
  }
  return std::all_of(segment.used_.begin(), segment.used_.end(),
                     [&](const PreparedSegment::UsedSlot& used) {
                       return variant.live[used.slot] == live[used.slot];
                     });
}

// An engine that is not meant to be fast has no trial, nor does compile_all,
// whose users want to see the code run.
void Tier2Variant::StartTrial() {
  const bool is_tried = engine_ != nullptr && engine_->is_for_speed();
  trial_.emplace(is_tried && !g_settings.compile_all());
}

void Tier2Variant::PickUp(PreparedSegment* segment,
                          PreparedSegment::Variant* variant) {
  const auto state = task_->state.load(std::memory_order_acquire);
  if (state == CompileTask::State::kDropped) {
    StopAwaiting(*segment);
    task_ = nullptr;
    state_ = State::kCounting;
    return;
  }
  if (Planted(Defect::kEarlyPublication)) {
    // A program that has no steps yet.
    task_ = std::make_shared<CompileTask>();
  } else if (state == CompileTask::State::kWaiting) {
    return;
  } else {
    const SegmentCode& code = task_->code;
    compile_ns_ += task_->ns;
    if (InstructionLogOn()) {
      LogTraceEvent(LogEvent::kCompile, "Complete",
                    TraceOfSegment(*segment->nodes_.back()),
                    absl::StrCat("groups=", code.groups.size(), " fused=",
                                 code.steps_fused, " tier=2", WhyNotText(code)),
                    static_cast<std::uint64_t>(task_->ns));
    }
    if (OwnSpan::IsSeen()) {
      OwnSpan().Begin(absl::StrFormat(
          "code for %d of %s after %.1f ms", code.steps_fused,
          OpsText(segment->nodes_), 1e-6 * static_cast<double>(task_->ns)));
    }
    if (code.groups.empty()) {
      StopAwaiting(*segment);
      return SwitchOff();
    }
  }
  Build(segment, variant);
  state_ = State::kCompiled;
  segment->CountKept();
}

void Tier2Variant::Build(PreparedSegment* segment,
                         PreparedSegment::Variant* variant) {
  const SegmentCode& code = task_->code;
  groups_.resize(code.groups.size());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const CompiledGroup& group = code.groups[g];
    groups_[g] = {
        segment, &segment->steps_[group.steps[0]], &group, {}, {}, false,
        nullptr};
    groups_[g].memory.resize(group.memory.size() + group.shape.scratch.size());
    groups_[g].scalars.resize(group.scalars.size());
    for (const std::int32_t slot : group.writes) {
      if (segment->born_[slot] < 0) written_.push_back(slot);
    }
  }
  bakes_recorded_ = BakesRecorded(*segment);
  is_alone_ = std::all_of(
      code.order.begin(), code.order.end(), [&](const CodeItem& item) {
        return item.group >= 0 &&
               !code.groups[item.group].kernel->calls_libtorch();
      });
  Plan(segment, variant);
  DumpFile* const dump = segment->compiler_.tier2->dump();
  if (dump != nullptr && dump->Wants(kDumpPlan)) Dump(*segment, *variant, dump);
}

void Tier2Variant::PlanAgain(PreparedSegment* segment,
                             PreparedSegment::Variant* variant) {
  if (executable_ != nullptr && segment->WaysOfSteps() != ways_) {
    Plan(segment, variant);
  }
}

Tier2Variant::Ordered Tier2Variant::Order(
    const PreparedSegment& segment, const PreparedSegment::Variant& variant,
    bool learned) const {
  const SegmentCode& code = task_->code;
  const std::vector<PlanStep> plan_steps = segment.PlanSteps();
  std::vector<PlanStep> unordered;
  for (const CodeItem& item : code.order) {
    if (item.group < 0) {
      unordered.push_back(plan_steps[item.step]);
      if (!learned) unordered.back().scratch.clear();
      continue;
    }
    const CompiledGroup& group = code.groups[item.group];
    unordered.push_back({group.reads, group.writes, group.in_place, {}});
    if (group.shape.scratch_bytes != 0) {
      unordered.back().scratch = {group.shape.scratch_bytes};
    }
  }
  const std::vector<PlanSlot> slots = segment.PlanSlots(variant.live);
  Ordered ordered;
  std::vector<PlanStep> plan;
  for (const std::uint32_t i : OrderSteps(unordered, slots)) {
    ordered.items.push_back(code.order[i]);
    plan.push_back(std::move(unordered[i]));
  }
  ordered.memory = PlanMemory(plan, slots);
  return ordered;
}

void Tier2Variant::Plan(PreparedSegment* segment,
                        PreparedSegment::Variant* variant) {
  std::vector<std::uint64_t> ways = segment->WaysOfSteps();
  const Ordered ordered = Order(*segment, *variant, /*learned=*/true);
  std::vector<ProgramStep> program;
  for (const CodeItem& item : ordered.items) {
    if (item.group < 0) {
      program.push_back(segment->StepOf(item.step));
    } else {
      program.push_back({&RunGroup, &groups_[item.group], 0, &LendScratch});
    }
  }
  executable_ = std::make_unique<Executable>(program, ordered.memory);
  ways_ = std::move(ways);
}

void Tier2Variant::Dump(const PreparedSegment& segment,
                        const PreparedSegment::Variant& variant,
                        DumpFile* file) const {
  const SegmentCode& code = task_->code;
  const Ordered ordered = Order(segment, variant, /*learned=*/false);
  std::vector<std::string> items;
  for (const CodeItem& item : ordered.items) {
    items.push_back(
        item.group < 0
            ? absl::StrCat("call ", std::string(OpName(
                                        segment.nodes_[item.step]->step.op)))
            : absl::StrCat("group ", code.groups[item.group].dump_number));
  }
  DumpPlan(file, code.dump_number, items, ordered.memory);
}

bool Tier2Variant::BakesRecorded(const PreparedSegment& segment) const {
  for (const BoundGroup& group : groups_) {
    for (const BakedScalar& baked : group.code->baked) {
      const bool is_recorded = std::any_of(
          group.code->steps.begin(), group.code->steps.end(),
          [&](std::uint32_t i) {
            const TraceNode& node = *segment.nodes_[i];
            const std::uint32_t index = baked.index - node.scalar_begin;
            return index < node.step.scalars.size() &&
                   node.step.scalars[index].value.SameBits(baked.value);
          });
      if (!is_recorded) return false;
    }
  }
  return true;
}

std::string_view Tier2Variant::StaleScalar(
    const PreparedSegment& segment, const tjit::runtime::Run& run) const {
  OpId stale = kNoOp;
  if (Planted(Defect::kStaleKernelScalar) ||
      Planted(Defect::kSkippedScalarGuard) ||
      (bakes_recorded_ && !run.has_other_scalars)) {
    return {};
  }
  for (const BoundGroup& group : groups_) {
    for (const BakedScalar& baked : group.code->baked) {
      if (run.scalars[baked.index].SameBits(baked.value)) continue;
      for (const std::uint32_t i : group.code->steps) {
        TraceNode& node = *segment.nodes_[i];
        const std::uint32_t index = baked.index - node.scalar_begin;
        if (index >= node.step.scalars.size()) continue;
        node.step.scalars[index].MarkRuntime();
        stale = node.step.op;
      }
    }
  }
  return stale == kNoOp ? std::string_view() : OpName(stale);
}

bool Tier2Variant::IsShifted(const tjit::runtime::Run& run) const {
  return std::any_of(written_.begin(), written_.end(), [&](std::int32_t s) {
    return run.slots[s].shift != 0;
  });
}

void Tier2Variant::RecordTime(const PreparedSegment& segment, bool compiled,
                              std::uint64_t ns, Counters* counters) {
  CodeOfSizes& sizes = *segment.sizes_;
  if (!compiled) {
    tier1_ns_ += ns;
    sizes.AddLibraryTime(ns);
  }
  const bool is_known_now = sizes.AddTurn(trial_->Add(compiled, ns));
  if (!trial_->is_over()) {
    // Sizes that are gone before their own trial is over decide together.
    if (is_known_now) RecordVerdict(segment, sizes.pays());
    return;
  }
  const bool pays = trial_->pays() || !engine_->is_for_speed();
  // Without turns the other side is the first runs, which are slow.
  if (trial_->takes_turns() || !pays) PrintMeasured(segment, pays);
  RecordVerdict(segment, pays);
  if (pays) return;
  const Trace* const slow = TraceOfSegment(*segment.nodes_.back());
  if (slow != nullptr) RecordSlowCode(*slow);
  counters->tier2_switched_off.Add();
  SwitchOff();
}

void Tier2Variant::StopAwaiting(const PreparedSegment& segment) {
  if (Trace* const trace = TraceOf(segment)) {
    trace->awaits_code.store(false, std::memory_order_relaxed);
  }
}

void Tier2Variant::RecordVerdict(const PreparedSegment& segment,
                                 bool pays) const {
  Trace* const trace = TraceOf(segment);
  if (trace == nullptr || !engine_->is_for_speed()) return;
  trace->has_code.store(pays, std::memory_order_relaxed);
  if (pays) trace->ForgetRunsWithoutCode();
  StopAwaiting(segment);
}

void Tier2Variant::PrintMeasured(const PreparedSegment& segment,
                                 bool pays) const {
  ExplainedCode code;
  code.ops = StepsOf(task_->code);
  code.first_op = std::string(OpName(segment.nodes_[0]->step.op));
  if (const Trace* trace = TraceOfSegment(*segment.nodes_.back())) {
    code.sequence = SequenceName(*trace);
  }
  code.pays = pays;
  code.compile_ns = compile_ns_;
  code.library_ns = static_cast<std::int64_t>(trial_->without_ns());
  code.compiled_ns = static_cast<std::int64_t>(trial_->with_ns());
  if (InstructionLogOn()) {
    LogTraceEvent(LogEvent::kCompile, "Measured",
                  TraceOfSegment(*segment.nodes_.back()),
                  absl::StrCat("ops=", code.ops, " pays=", pays ? 1 : 0,
                               " library_ns=", code.library_ns,
                               " compiled_ns=", code.compiled_ns));
  }
  PrintCompile(absl::StrCat(pays ? "Measured: a segment of "
                                 : "Fallback: library calls, a segment of ",
                            ToText(code)));
  segment.compiler_.tier2->RecordMeasured(std::move(code));
}

void Tier2Variant::SwitchOff() {
  state_ = State::kOff;
  executable_.reset();
  groups_.clear();
  written_.clear();
  task_ = nullptr;
  tier1_ns_ = 0;
  runs_ = 0;
}

}  // namespace tjit::runtime

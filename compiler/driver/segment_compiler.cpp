#include "compiler/driver/segment_compiler.h"

#include <algorithm>
#include <utility>

#include "compiler/driver/segment_dump.h"
#include "compiler/driver/segment_steps.h"

namespace tjit {

SegmentCompiler::SegmentCompiler(const SegmentInput& input,
                                 const CompileLimits& limits, SegmentDump* dump,
                                 bool finds_varied)
    : input_(input),
      limits_(limits),
      dump_(dump),
      scalars_(input, finds_varied) {}

void SegmentCompiler::DescribeSteps() {
  for (const SegmentStep& step : input_.steps) {
    steps_.push_back(DescribeStep(step));
  }
  CountUses();
}

bool SegmentCompiler::FindLowerable(std::uint32_t s) {
  steps_[s].is_lowerable = CanCompile(s);
  if (steps_[s].is_lowerable || !scalars_.Has(s)) return false;
  scalars_.Bake(s);
  steps_[s].is_lowerable = CanCompile(s);
  return true;
}

std::vector<GroupSlot> SegmentCompiler::GroupSlots(
    const std::vector<std::uint32_t>& steps) {
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

bool SegmentCompiler::KeepsLimits(const std::vector<std::uint32_t>& steps) {
  if (limits_.stop != nullptr && limits_.stop->load()) {
    return Fail(steps, "tjit stopped compiling");
  }
  if (std::chrono::steady_clock::now() > limits_.deadline) {
    return Fail(steps, "the sequence took longer to compile than it may");
  }
  return true;
}

void SegmentCompiler::AddCalls(const std::vector<std::uint32_t>& steps) {
  for (const std::uint32_t s : steps) {
    code_.order.push_back({-1, input_.steps[s].index});
  }
}

void SegmentCompiler::Append(CompiledGroup group) {
  code_.order.push_back({static_cast<std::int32_t>(code_.groups.size()), 0});
  code_.steps_fused += static_cast<std::int64_t>(group.steps.size());
  code_.groups.push_back(std::move(group));
}

bool SegmentCompiler::Fail(const std::vector<std::uint32_t>& steps,
                           std::string reason) {
  if (dump_ != nullptr) dump_->AddFailure(steps, reason);
  ++code_.failed;
  code_.reasons.push_back(std::move(reason));
  return false;
}

void SegmentCompiler::BindScalars(const std::vector<std::uint32_t>& steps,
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

void SegmentCompiler::CountUses() {
  uses_.assign(input_.slots.size(), 0);
  for (std::uint32_t s = 0; s < steps_.size(); ++s) {
    for (const std::int32_t slot : SlotsOf(steps_[s])) {
      if (uses_[slot]++ == 0 && Fills(input_.steps[s].record, slot)) {
        filled_by_.emplace(slot, s);
      }
    }
  }
}

}  // namespace tjit

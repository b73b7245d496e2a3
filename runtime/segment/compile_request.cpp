// When the code of a variant is asked for, and with what.
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "recorder/schema_key.h"
#include "runtime/library_calls/call_names.h"
#include "runtime/platform/fp_environment.h"
#include "runtime/platform/settings.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log.h"
#include "runtime/report/sequence_name.h"
#include "runtime/report/stance.h"
#include "runtime/segment/segment_variant.h"
#include "runtime/tier2/hot_profile.h"
#include "runtime/tier2/llvm_engine.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

bool Tier2Variant::HasCodeOfOtherSizes(const PreparedSegment& segment) {
  const Trace* trace = TraceOf(segment);
  return trace != nullptr && trace->has_code.load(std::memory_order_relaxed);
}

// What a profile knows has paid for its code in an earlier process. Where other
// sizes have code there is nothing to compile, most of the time: other segments
// of the trace may have none yet. Sizes that are gone soon pay together.
bool Tier2Variant::IsTimeToAsk(const PreparedSegment& segment,
                               std::size_t steps) const {
  // What is compiled whatever it pays must not depend on how busy the machine
  // is.
  const bool must_pay = !g_settings.compile_all();
  if (must_pay && HasCodeOfOtherSizes(segment)) return true;
  const bool is_paid_together = must_pay && segment.sizes_->HasPaid(steps);
  if (runs_ < 2 && !(is_paid_together && segment.sizes_->has_asked())) {
    return false;
  }
  const Trace* trace = TraceOf(segment);
  if (trace != nullptr && trace->known.load(std::memory_order_relaxed)) {
    return true;
  }
  if (!engine_->is_for_speed() || g_settings.compile_all()) return true;
  return is_paid_together || tier1_ns_ > CodeOfSizes::CompileNs(steps);
}

// Half of what it takes, the run that is about to begin counted with what it
// will take at least: where a run is long, code is asked for after the first
// one. The worker loads LLVM, looks for eager's functions and lowers the groups
// meanwhile.
bool Tier2Variant::IsNearlyTimeToAsk(std::size_t steps) const {
  return 2 * (tier1_ns_ + least_ns_) > CodeOfSizes::CompileNs(steps);
}

std::uint64_t Tier2Variant::LeastNs(const PreparedSegment& segment,
                                    const PreparedSegment::Variant& variant) {
  std::uint64_t bytes = 0;
  for (const std::uint32_t i : variant.executable->plan().needed) {
    const StepRecord& step = segment.nodes_[i]->step;
    for (const ArgRecord& a : step.args) {
      if (a.slot == kNoSlot) continue;
      const auto all = static_cast<std::uint64_t>(a.geometry->numel()) *
                       a.geometry->itemsize;
      bytes += std::min(all, segment.slot_bytes_[a.slot]);
    }
    for (const ResultRecord& r : step.results) {
      if (r.kind != ResultRecord::Kind::kFresh) continue;
      bytes += segment.slot_bytes_[r.slot];
    }
  }
  return bytes / policy::kBytesPerNs;
}

SegmentInput Tier2Variant::InputOf(const PreparedSegment& segment,
                                   const PreparedSegment::Variant& variant) {
  SegmentInput input;
  // Of the segment, while it runs.
  input.threads = at::get_num_threads();
  input.has_usual_arithmetic = HasUsualArithmetic();
  for (const std::uint32_t i : variant.executable->plan().needed) {
    const TraceNode& node = *segment.nodes_[i];
    input.steps.push_back({CopyOf(node.step), OpName(node.step.op),
                           node.payload, i, node.scalar_begin});
  }
  std::vector<std::string> names(segment.slot_bytes_.size());
  for (const TraceNode* node : segment.nodes_) AddSlotNames(*node, &names);
  for (std::size_t s = 0; s < segment.slot_bytes_.size(); ++s) {
    input.slots.push_back({segment.slot_bytes_[s], variant.live[s] == kSurvives,
                           std::move(names[s])});
  }
  return input;
}

void Tier2Variant::Ask(PreparedSegment* segment,
                       PreparedSegment::Variant* variant, bool is_again,
                       Counters* counters) {
  if (!g_settings.may_compile()) {
    state_ = State::kCounting;  // it asks again where it may
    return RefuseCompile(counters, segment->nodes_[0]->step.op,
                         segment->nodes_[0]->id);
  }
  SegmentInput input = InputOf(*segment, *variant);
  const Trace* const trace = TraceOfSegment(*segment->nodes_.back());
  if (trace != nullptr) input.sequence = SequenceName(*trace);
  RecordCode(*segment, *variant);
  const std::size_t steps = input.steps.size();
  CodeOfSizes& sizes = *segment->sizes_;
  if (!is_again) {
    if (sizes.has_asked()) trial_->Hurry();
    sizes.RecordAsked();
  }
  if (HasCodeOfOtherSizes(*segment)) {
    trial_->GiveHeadStart(sizes.HeadStart());
  }
  if (InstructionLogOn()) {
    LogTraceEvent(LogEvent::kCompile, "Starting", trace,
                  absl::StrCat("ops=", steps, " tier=2"));
  }
  PrintCompile(
      absl::StrCat("Compiling segment of ", steps, " ops for tier 2 (from op ",
                   segment->nodes_[0]->depth, ", ",
                   std::string(OpName(segment->nodes_[0]->step.op)), ")"));
  task_ = segment->compiler_.tier2->Ask(std::move(input), engine_, is_again);
  state_ = task_ == nullptr ? State::kCounting : State::kAsked;
  Trace* const awaiting = TraceOf(*segment);
  if (task_ != nullptr && awaiting != nullptr && engine_->is_for_speed() &&
      !HasCodeOfOtherSizes(*segment)) {
    awaiting->awaits_code.store(true, std::memory_order_relaxed);
  }
}

// All segments of a run together wait no longer than the constants say.
bool Tier2Variant::AwaitCodeOfOtherSizes(const PreparedSegment& segment) const {
  CodeOfSizes& sizes = *segment.sizes_;
  if (g_settings.compile_all() || !HasCodeOfOtherSizes(segment)) return false;
  const Trace& trace = *TraceOf(segment);
  const std::uint64_t saved = trace.NsSavedByRun();
  if (saved < policy::kLeastSavedForWait || !sizes.MayWait()) return false;
  const std::uint64_t all =
      std::min(policy::kRunsOfWait * saved, policy::kLongestWaitNs);
  const std::uint64_t part =
      all * std::min<std::uint64_t>(segment.nodes_.size(), trace.length) /
      trace.length;
  const auto end = Clock::now() + std::chrono::nanoseconds(part);
  auto state = task_->state.load(std::memory_order_acquire);
  while (state == CompileTask::State::kWaiting && Clock::now() < end) {
    std::this_thread::yield();
    state = task_->state.load(std::memory_order_acquire);
  }
  sizes.RecordWait(state == CompileTask::State::kDone);
  return state == CompileTask::State::kDone;
}

// For the profile.
void Tier2Variant::RecordCode(const PreparedSegment& segment,
                              const PreparedSegment::Variant& variant) {
  ProfileSegment code;
  code.begin = segment.nodes_.front()->depth;
  for (std::uint32_t s = 0; s < variant.live.size(); ++s) {
    if (variant.live[s] == kSurvives) code.live.push_back(s);
  }
  std::vector<std::uint8_t> runs(segment.nodes_.size(), 0);
  for (const std::uint32_t i : variant.executable->plan().needed) runs[i] = 1;
  for (std::uint32_t i = 0; i < runs.size(); ++i) {
    if (runs[i] == 0) code.dropped.push_back(i);
  }
  segment.compiler_.profile->RecordCode(segment.nodes_.back(), std::move(code));
}

}  // namespace tjit::runtime

// The part of ThreadState that leaves a thread alone: where tjit does not pay
// on it (recorder/thread_trial.h), and while a tjit::Pause lives.
#include <cstdint>
#include <exception>
#include <memory>

#include "runtime/call/interpose.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/report/log.h"
#include "runtime/report/strict.h"
#include "runtime/thread/loop_state.h"
#include "runtime/thread/observers.h"
#include "runtime/thread/region_visits.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/thread/thread_state.h"
#include "runtime/tier2/tier2.h"
#include "support/policy.h"

namespace tjit::runtime {
namespace {

// The trial judges speed. An engine that is not meant to be fast, and
// compile_all, are there for something else.
bool JudgesSpeed(const ThreadRegistry& registry) {
  if (g_settings.HasModes() || g_settings.samples_often()) return false;
  switch (ThreadTrials()) {
    case TrialsOf::kNone: return false;
    case TrialsOf::kTurns: return true;
    case TrialsOf::kThreads: break;
  }
  if (g_settings.compile_all()) return false;
  if (registry.tier2().has_slow_regions()) return false;
  const Engine* const engine = registry.tier2().engine();
  return engine == nullptr || engine->is_for_speed();
}

// Calls until the first look.
std::uint32_t CallsBeforeLook() {
  return ThreadTrials() == TrialsOf::kTurns ? 8 : ThreadTrial::kOpsPerRareLook;
}
std::uint32_t CallsBetweenLooks() {
  return ThreadTrials() == TrialsOf::kTurns ? 1 : ThreadTrial::kOpsPerLook;
}

}  // namespace

void ThreadState::ForgetTrial() {
  trial_.reset();
  until_look_ = CallsBeforeLook();
  SetFastStore();
}

void ThreadState::SetFastStore() {
  const RegionVisits* const regions = VisitsOf(*this);
  const bool looks = is_paused_ || TrialLooks() ||
                     (regions != nullptr && regions->looks_first());
  fast_store_ = looks ? nullptr : store_.get();
}

// The cursor stays where it is: what follows the pause is the rest of the same
// sequence, whose ops are then pending in two parts.
void ThreadState::SetPaused(bool is_paused) {
  if (is_paused == is_paused_) return;
  if (function_ != nullptr) function_->Fail(Refusal::kOpaqueScope);
  // A kernel that is running has all that it needs.
  if (is_paused && t_context.inside == 0) Flush(FlushReason::kSyncCall);
  is_paused_ = is_paused;
  SetFastStore();
}

// As an op inside a parallel region: nothing is learnt, and the stream of ops
// goes on behind it as if it had not been.
void ThreadState::RunPaused(CallFrame& frame) {
  counters_.ops_seen.Add();
  if (frame.context != 0) counters_.ops_direct.Add();
  frame.in_region = true;
  CountEager(frame);
  MakeReady(frame);
}

// As if tjit were off, but counted.
Decision ThreadState::RunUnwatched(CallFrame& frame) {
  if (function_ != nullptr) function_->Fail(Refusal::kOpaqueScope);
  counters_.ops_seen.Add();
  if (frame.context != 0) counters_.ops_direct.Add();
  frame.in_region = InParallelRegion();
  return RunUnseen(frame);
}

bool ThreadState::RunsAlone(CallFrame& frame) {
  if (is_bystander_) {
    frame.in_region = true;
    MakeReady(frame);
    return true;
  }
  if (store_.get() != registry_->store()) AdoptNewStore();
  if (fast_store_ != nullptr) return false;
  if (is_paused_) {
    if (function_ != nullptr) function_->Fail(Refusal::kOpaqueScope);
    if (FollowModes()) return false;
    RunPaused(frame);
    return true;
  }
  if (TrialLooks()) {
    if (trial_->learns()) {
      trial_->Learn(frame.entry.id, NowNs());
    } else if (trial_->counts()) {
      trial_->Count(frame.entry.id);
    }
    if (--until_look_ == 0) LookAtTrial();
  }
  const RegionVisits* const regions = VisitsOf(*this);
  if (IsStrict(regions)) ThrowKeptFailure(&counters_);
  // These modes look at each op, and defer none.
  const bool is_excluded = regions != nullptr && regions->excludes_all() &&
                           (g_settings.modes() & kModesAtCall) == 0;
  if (!is_excluded && (!IsAlone() || FollowModes())) return false;
  RunUnwatched(frame);
  return true;
}

void ThreadState::LookAtTrial() {
  until_look_ = CallsBeforeLook();
  // Another time: what is pending cannot run here.
  if (t_context.held != nullptr || InParallelRegion()) return;
  const Engine* const engine = registry_->tier2().engine();
  if (IsWatched() || !JudgesSpeed(*registry_) ||
      (trial_ != nullptr && trial_engine_ != engine)) {
    return ForgetTrial();
  }
  try {
    if (trial_ == nullptr) {
      trial_ = std::make_unique<ThreadTrial>(
          ThreadTrials() == TrialsOf::kTurns ? ThreadTrial::OfTurns()
                                             : ThreadTrial());
      trial_engine_ = engine;
    }
    TurnTrial();
  } catch (const std::exception&) {
    // No memory, for the trial or for what is pending, which stays so: the op
    // that is called now needs neither.
  }
}

void ThreadState::TurnTrial() {
  ThreadTrial& trial = *trial_;
  if (trial.counts()) until_look_ = CallsBetweenLooks();
  const auto usage = [&]() -> ThreadTrial::Usage {
    return {NowNs(),
            ThreadNs(),
            counters_.ops_seen.value(),
            counters_.ops_replayed.value(),
            loops_->longest,
            loops_->paths};
  };
  const std::uint64_t now = NowNs();
  if (!trial.MayBeDue(now, counters_.ops_seen.value(), loops_->paths) ||
      !trial.IsDue(usage())) {
    return;
  }
  // Not in the midst of the trial of a sequence, which lets it run eagerly, and
  // not while sequences are found: recording them costs more than it wins yet.
  const bool finds =
      counters_.ops_seen.value() < loops_->found_at + policy::kOpsAfterFind;
  if (!trial.counts() && (finds || TraceTrial::IsUnderWay(now)) &&
      ++postponed_ < policy::kMostTrialsPostponed) {
    return;
  }
  postponed_ = 0;
  // What a window deferred is its own. It runs as it would eagerly: the segment
  // that happens to be pending is none that comes again.
  if (!trial.is_blind()) LeavePath(/*drains=*/true);
  const std::int64_t lost = trial.lost();
  trial.Turn(usage());
  SetFastStore();
  until_look_ = trial.counts() ? CallsBetweenLooks() : CallsBeforeLook();
  // The place in the program where a window ends is no boundary of its.
  at_boundary_ = false;
  after_mark_step_ = false;
  if (trial.lost() == lost) return;
  if (trial.lost_in_row() > 1) {  // what was prepared is not needed again
    const StateLock lock(this);
    segments_.Clear();
  }
  counters_.threads_left_alone.Add();
  PrintLeftAlone(trial);
}

}  // namespace tjit::runtime

// The part of ThreadState that asks whether tjit pays on the thread at all, and
// leaves it alone where it does not (recorder/thread_trial.h).
#include <cstdint>
#include <memory>

#include "runtime/call/interpose.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/report/log.h"
#include "runtime/runtime.h"
#include "runtime/thread/loop_state.h"
#include "runtime/thread/observers.h"
#include "runtime/thread/thread_state.h"
#include "runtime/tier2/tier2.h"

namespace tjit::runtime {
namespace {

// The trial judges speed. An engine that is not meant to be fast, and
// compile_all, are there for something else.
bool JudgesSpeed(Runtime* runtime) {
  if (!TriesThreads() || runtime->compile_all() || runtime->modes() != 0) {
    return false;
  }
  const Engine* const engine = runtime->tier2().engine();
  return engine == nullptr || engine->is_for_speed();
}

}  // namespace

bool ThreadState::RunsAlone(CallFrame& frame) {
  if (store_.get() != runtime_->store()) TakeNewStore();
  if (usual_store_ != nullptr) return false;
  if (trial_->learns()) {
    trial_->Learn(frame.entry.id, NowNs());
  } else if (trial_->counts()) {
    trial_->Count(frame.entry.id);
  }
  if (--until_look_ == 0) LookAtTrial();
  if (!trial_->is_blind() || runtime_->modes() != 0) return false;
  counters_.ops_seen.Add();
  if (frame.context != 0) counters_.ops_direct.Add();
  frame.in_region = InParallelRegion();
  CountEager(frame);
  MakeReady(frame);
  return true;
}

void ThreadState::LookAtTrial() {
  until_look_ = ThreadTrial::kOpsPerRareLook;
  // Another time: what is pending cannot run here, or somebody watches.
  if (t_context.held != nullptr || InParallelRegion() || IsWatched() ||
      !JudgesSpeed(runtime_)) {
    return;
  }
  if (trial_ == nullptr) trial_ = std::make_unique<ThreadTrial>();
  ThreadTrial& trial = *trial_;
  const std::int64_t ops = counters_.ops_seen.value();
  const std::uint64_t now = NowNs();
  if (trial.counts()) until_look_ = ThreadTrial::kOpsPerLook;
  if (!trial.IsDue(now, ops)) return;
  const std::int64_t lost = trial.lost();
  // What a window deferred is its own.
  if (trial.phase() == ThreadTrial::Phase::kUsual) LeavePath();
  if (!trial.Look({now, ThreadNs(), ops, counters_.ops_replayed.value(),
                   loops_->longest})) {
    return;
  }
  if (trial.is_blind()) LeavePath();
  usual_store_ = trial.counts() || trial.is_blind() ? nullptr : store_.get();
  if (trial.counts()) until_look_ = ThreadTrial::kOpsPerLook;
  if (trial.lost() == lost) return;
  // What was prepared for replays may never be needed again.
  {
    const StateLock lock(this);
    segments_.Clear();
  }
  counters_.threads_left_alone.Add();
  SayLeftAlone(trial);
}

}  // namespace tjit::runtime

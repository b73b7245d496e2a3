#include "runtime/thread/thread_registry.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/platform/parallel.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/wait_row.h"
#include "runtime/report/attach.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log.h"
#include "runtime/report/sequence_times.h"
#include "runtime/thread/thread_state.h"
#include "runtime/tier2/tier2.h"

namespace tjit::runtime {
namespace {

std::atomic<ThreadRegistry*> g_registry{nullptr};

}  // namespace

ThreadRegistry::ThreadRegistry(Tier2* tier2, HotProfile* hot_profile,
                               Counters* counters)
    : root_ops_(std::make_unique<std::atomic<bool>[]>(kMaxOps)),
      tier2_(tier2),
      hot_profile_(hot_profile),
      process_counters_(counters),
      bystander_(new ThreadState(this, /*stream=*/0, /*store=*/nullptr,
                                 /*is_bystander=*/true)) {
  {
    const MutexLock lock(mutex_);
    SetStore(std::make_unique<TraceStore>());
  }
  tier2_->CallAfterCompiling([this] { EvictIfOverBound(); });
  g_registry.store(this, std::memory_order_release);
}

ThreadRegistry* ThreadRegistry::Get() {
  return g_registry.load(std::memory_order_acquire);
}

// None inside a parallel region: whoever flushes a state, or holds it for a fork,
// may wait for this thread (Note [Who may wait] in materialize.cpp), and what is
// taken is locked.
ThreadState* ThreadRegistry::AcquireFreeState() {
  if (free_states_.empty() || InParallelRegion()) return nullptr;
  ThreadState* const state = free_states_.back();
  free_states_.pop_back();
  return state;
}

ThreadState* ThreadRegistry::NewState() {
  ThreadState* reused = nullptr;
  {
    const WaitingLock lock(mutex_, WaitFor::kThreads);
    reused = AcquireFreeState();
  }
  if (reused != nullptr) {
    reused->Flush(FlushReason::kThreadExit);
    reused->Reset();
    reused->SetPaused(false);  // a pause may have outlived its thread
    reused->AdoptStore();
    return reused;
  }
  const WaitingLock lock(mutex_, WaitFor::kThreads);
  const auto stream = static_cast<std::uint16_t>(states_.size() + 1);
  states_.push_back(new ThreadState(this, stream, held_store_));
  return states_.back();
}

void ThreadRegistry::ReturnState(ThreadState* state) {
  const MutexLock lock(mutex_);
  free_states_.push_back(state);
}

void ThreadRegistry::FlushAll(FlushReason reason) {
  if (g_settings.AnyPending()) FlushAllSurely(reason);
}

void ThreadRegistry::FlushAllSurely(FlushReason reason) {
  for (ThreadState* state : States()) state->FlushSurely(reason);
}

void ThreadRegistry::FlushAllBeforeChange() {
  if (!g_settings.AnyPending()) return;
  const bool may_be_worker = InParallelRegion();
  for (ThreadState* state : States()) {
    if (may_be_worker && state->flushing() != PendingQueue::Flushing::kNo) {
      continue;
    }
    state->FlushSurely(FlushReason::kContextChange);
  }
}

std::string ThreadRegistry::DescribeStates() {
  if (!mutex_.try_lock()) return "the list of states is locked\n";
  const MutexLock lock(mutex_, std::adopt_lock);
  std::string text;
  for (ThreadState* state : states_) {
    absl::StrAppend(
        &text, "state ", state->stream(), ": ",
        state->has_pending() ? "ops are pending" : "nothing is pending",
        state->flushing() == PendingQueue::Flushing::kNo ? "\n"
                                                        : ", kernels run\n");
  }
  return text;
}

std::vector<ThreadState*> ThreadRegistry::States() {
  const WaitingLock lock(mutex_, WaitFor::kThreads);
  return states_;
}

void ThreadRegistry::SetLimits(const StoreLimits& limits,
                               std::uint64_t most_kept) {
  most_kept_.store(most_kept, std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  store_limits_ = limits;
  record_share_ = kMostRecordShare;
  held_store_->SetLimits(BoundedLimits());
}

void ThreadRegistry::ReplaceStore() {
  const MutexLock lock(mutex_);
  // Before threads come that note the roots of the new store.
  for (OpId op = 0; op < kMaxOps; ++op) {
    root_ops_[op].store(false, std::memory_order_relaxed);
  }
  // Each thread looks at its next op and starts over by itself.
  record_share_ = kMostRecordShare;
  auto store = std::make_unique<TraceStore>(BoundedLimits());
  if (InstructionLogOn()) LogForgotten(*held_store_, *store);
  SetStore(std::move(store));
}

void ThreadRegistry::LookAtAttach() {
  if (!runtime::LookAtAttach()) return;
  const std::shared_ptr<TraceStore> store = HoldStore();
  LogKnown(*store);
  LogAllTimes(*store, /*is_beginning=*/true);
}

// The states come first: one may be flushing, and threads that its kernels wait
// for take the other two. A state that is new by then is waited for again.
void ThreadRegistry::LockForFork(Mutex* outer) {
  for (;;) {
    const std::vector<ThreadState*> states = States();
    for (ThreadState* state : states) state->LockForFork();
    outer->lock();
    mutex_.lock();
    if (states.size() == states_.size()) break;
    mutex_.unlock();
    outer->unlock();
    for (ThreadState* state : states) state->UnlockAfterFork();
  }
  held_store_->LockForFork();
}

void ThreadRegistry::UnlockAfterFork(bool is_child) {
  held_store_->UnlockAfterFork();
  for (ThreadState* state : states_) {
    if (is_child) state->ForgetTrial();
    state->UnlockAfterFork();
  }
  mutex_.unlock();
}

}  // namespace tjit::runtime

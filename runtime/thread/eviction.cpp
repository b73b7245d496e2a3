// Stores that come and go: which one is the present one, and the background job
// that replaces a full one (Note [Eviction] in recorder/trace_eviction.cpp).
#include <chrono>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "runtime/call/interpose.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/thread/thread_state.h"
#include "runtime/tier2/hot_profile.h"
#include "runtime/tier2/tier2.h"

namespace tjit::runtime {

void ThreadRegistry::SetStore(std::unique_ptr<TraceStore> store) {
  // Freeing hundreds of thousands of nodes is nothing for the program's thread
  // that happens to be the last one.
  const auto free = [this](TraceStore* gone) {
    const auto job = [gone](const std::atomic<bool>&) {
      delete gone;
      return true;
    };
    bool is_posted = false;
    try {
      is_posted = tier2_->worker().Post(job);
    } catch (const std::bad_alloc&) {
    }
    if (!is_posted) delete gone;
  };
  held_store_ = std::shared_ptr<TraceStore>(store.release(), free);
  store_.store(held_store_.get(), std::memory_order_release);
}

std::shared_ptr<TraceStore> ThreadRegistry::HoldStore() {
  const MutexLock lock(mutex_);
  return held_store_;
}

void ThreadRegistry::MaybeEvict(const std::shared_ptr<TraceStore>& store,
                         bool had_no_room) {
  if (!store->WantsEviction(had_no_room) || evicting_.exchange(true)) return;
  // Weak: a job may go under the queue's mutex, which freeing a store takes.
  const std::weak_ptr<TraceStore> weak = store;
  const auto job = [this, weak](const std::atomic<bool>& hurry) {
    const std::shared_ptr<TraceStore> full = weak.lock();
    bool is_done = true;
    try {
      if (full != nullptr) is_done = Evict(full.get(), hurry);
    } catch (const std::bad_alloc&) {  // another time
    }
    if (is_done) evicting_.store(false);
    return is_done;
  };
  bool is_posted = false;
  try {
    is_posted = tier2_->worker().Post(job);
  } catch (const std::bad_alloc&) {
  }
  if (!is_posted) evicting_.store(false);
}

// Nothing here waits for a mutex: a thread that forks holds them all while it
// waits for this one.
bool ThreadRegistry::Evict(TraceStore* store, const std::atomic<bool>& hurry) {
  if (this->store() != store) return true;  // there is another one already
  // Where the copy is not taken, the store is to go on.
  absl::Cleanup go_on = [store, limits = store->limits()] {
    if (store->limits().nodes == 0) store->SetLimits(limits);
  };
  std::unique_ptr<TraceStore> copy = store->CopyMostUsed(hurry);
  if (copy == nullptr) return false;
  std::shared_ptr<TraceStore> old;  // goes without the mutex
  std::uint32_t before = 0, after = 0;
  while (!mutex_.try_lock()) {
    if (hurry.load()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  {
    const MutexLock lock(mutex_, std::adopt_lock);
    if (held_store_.get() != store) return true;  // clear()
    hot_profile_->KeepCodeOf(*copy);
    before = store->node_count();
    after = copy->node_count();
    copy->SetLimits(store_limits_);
    old = held_store_;
    if (InstructionLogOn()) LogForgotten(*old, *copy);
    SetStore(std::move(copy));
    std::move(go_on).Cancel();
    process_counters_->evictions.Add();
  }
  PrintCompile(
      absl::StrCat("Forgotten: the ", before - after, " of ", before,
                   " recorded ops that were run least, as "
                   "TJIT_MAX_TRACE_STEPS or TJIT_MAX_TRACE_MB is near"));
  return true;
}

void ThreadRegistry::LetIdleStatesAdoptStore() {
  std::vector<ThreadState*> idle;
  {
    const MutexLock lock(mutex_);
    idle.reserve(free_states_.size());
    std::erase_if(free_states_, [&](ThreadState* state) {
      if (state->has_pending()) return false;
      idle.push_back(state);
      return true;
    });
  }
  for (ThreadState* state : idle) {
    try {
      state->AdoptStore();
    } catch (const std::bad_alloc&) {  // with the next store
    }
  }
  const MutexLock lock(mutex_);
  free_states_.insert(free_states_.end(), idle.begin(), idle.end());
}

void ThreadState::AdoptStore() {
  std::shared_ptr<TraceStore> store = registry_->HoldStore();
  if (store == store_) return;
  const bool is_copy = store->lineage() == store_->lineage();
  if (!is_copy) {
    StartOver();
  } else {
    LeavePath();
  }
  const StateLock lock(this);
  if (is_copy) {
    segments_.MoveTo(*store);
    // What had no room may have some now.
    captures_.Reset();
    absl::erase_if(exits_, [&](const auto& exit) {
      return store->NodeOf(exit.first) == nullptr;
    });
  }
  store_ = std::move(store);
  if (fast_store_ != nullptr) fast_store_ = store_.get();
}

void ThreadState::AdoptNewStore() {
  // At the next op: a thread of a team must wait for no state.
  if (t_context.held != nullptr || InParallelRegion()) return;
  AdoptStore();
  registry_->LetIdleStatesAdoptStore();
}

}  // namespace tjit::runtime

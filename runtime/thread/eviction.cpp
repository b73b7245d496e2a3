// Stores that come and go: which one is the present one, and the background job
// that replaces a full one (Note [Eviction] in recorder/trace_eviction.cpp).
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "runtime/call/interpose.h"
#include "runtime/report/events.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/thread/thread_state.h"
#include "runtime/tier2/hot_profile.h"
#include "runtime/tier2/tier2.h"
#include "support/kept_bytes.h"

namespace tjit::runtime {

namespace {

// Bytes of records by which the part that they are of all is known.
constexpr std::uint64_t kLeastKnown = 64 << 10;

}  // namespace

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
  if (held_store_ != nullptr) left_stores_.emplace_back(held_store_);
  held_store_ = std::shared_ptr<TraceStore>(store.release(), free);
  store_.store(held_store_.get(), std::memory_order_release);
}

std::shared_ptr<TraceStore> ThreadRegistry::HoldStore() {
  const MutexLock lock(mutex_);
  return held_store_;
}

std::uint64_t ThreadRegistry::KeptWith(const TraceStore& store) {
  return store.bytes() + KeptBytes(Kept::kPlans) + KeptBytes(Kept::kCode);
}

// Note [Bounded memory]
// Plans and code come later than the records that they are of, and take several
// times as much. What part of all that is kept are records is known once some
// are there, so TJIT_MAX_MEMORY_MB bounds the records of a store, by that part:
// the store is then full where all would be, and what is run least is left out.
// Where plans grow later (more variants, code of what had none), a store is
// left without waiting for what was added to be run.
//
// What some thread has not left yet counts still, so until then no other store
// is left for its sake, and nothing is learned of the part. A sequence that
// would take all by itself is left out as well, and has no room when it comes
// again: the part is remembered.
StoreLimits ThreadRegistry::BoundedLimits() const {
  StoreLimits limits = store_limits_;
  const std::uint64_t most = most_kept_.load(std::memory_order_relaxed);
  if (most != 0) {
    // So many are there when the part is learned anew.
    const std::uint64_t least = std::min(most / 2, 2 * kLeastKnown);
    const auto share =
        static_cast<std::uint64_t>(record_share_ * static_cast<double>(most));
    limits.bytes = std::min(limits.bytes, std::max(least, share));
  }
  return limits;
}

bool ThreadRegistry::IsOverBound(TraceStore* store) {
  const std::uint64_t most = most_kept_.load(std::memory_order_relaxed);
  const std::uint64_t records = store->bytes(), kept = KeptWith(*store);
  if (!mutex_.try_lock()) return false;  // the next time
  const MutexLock lock(mutex_, std::adopt_lock);
  if (held_store_.get() != store) return false;
  std::erase_if(left_stores_, [](const auto& s) { return s.expired(); });
  if (records >= kLeastKnown && left_stores_.empty()) {
    // Records come before their plans: what is new looks better than it is.
    constexpr double kPartOfGain = 1.0 / 16;
    const double share =
        std::min(kMostRecordShare,
                 static_cast<double>(records) / static_cast<double>(kept));
    const double gain = share - record_share_;
    record_share_ += gain < 0 ? gain : kPartOfGain * gain;
  }
  store->SetLimits(BoundedLimits());
  return most != 0 && kept > most && left_stores_.empty();
}

// The worker's.
void ThreadRegistry::EvictIfOverBound() {
  if (most_kept_.load(std::memory_order_relaxed) == 0 || !mutex_.try_lock()) {
    return;
  }
  std::shared_ptr<TraceStore> store;
  {
    const MutexLock lock(mutex_, std::adopt_lock);
    store = held_store_;
  }
  MaybeEvict(store, /*had_no_room=*/false);
}

void ThreadRegistry::MaybeEvict(const std::shared_ptr<TraceStore>& store,
                         bool had_no_room) {
  const bool is_bounded = most_kept_.load(std::memory_order_relaxed) != 0;
  if (store->node_count() == 0) return;
  if (!is_bounded && !store->WantsEviction(had_no_room)) return;
  if (evicting_.exchange(true)) return;
  if (!(is_bounded && IsOverBound(store.get())) &&
      !store->WantsEviction(had_no_room)) {
    evicting_.store(false);
    return;
  }
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
  TraceStore::Dropped dropped;
  std::unique_ptr<TraceStore> copy = store->CopyMostUsed(hurry, &dropped);
  if (copy == nullptr) return false;
  const bool is_for_limits = dropped.by_limits || !dropped.leftovers;
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
    copy->SetLimits(BoundedLimits());
    old = held_store_;
    if (InstructionLogOn()) LogForgotten(*old, *copy);
    SetStore(std::move(copy));
    std::move(go_on).Cancel();
    if (dropped.leftovers) process_counters_->trims.Add();
    if (is_for_limits) process_counters_->evictions.Add();
  }
  if (TellsEvents()) {
    Event event;
    event.kind = EventKind::kEvicted;
    event.ops = std::int64_t{before} - after;
    TellEvent(std::move(event));
  }
  if (most_kept_.load(std::memory_order_relaxed) != 0) {
    tier2_->ForgetKernels();
  }
  PrintCompile(absl::StrCat("Forgotten: the ", before - after, " of ", before,
                            !is_for_limits
                                ? " recorded ops of sequences that are "
                                  "recorded in parts since"
                                : " recorded ops that were run least, as "
                                  "TJIT_MAX_TRACE_STEPS, TJIT_MAX_TRACE_MB or "
                                  "TJIT_MAX_MEMORY_MB is near"));
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

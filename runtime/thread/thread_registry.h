// The states of all threads, and the store that they record into.
//
// A thread gets a state with its first op and hands it back, with what is
// pending, when it ends. No state is ever destroyed. The store is replaced by
// clear() and by eviction; what is replaced lives as long as a thread follows
// it.
// Thread: any. mutex_ guards the lists of states and the store. Nobody who
// holds it waits for the mutex of a state: a fork takes the states first.
// Tested by: tests/runtime/front_door_test.cpp,
// tests/runtime/thread/eviction_test.cpp
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "recorder/trace.h"
#include "support/bail.h"
#include "support/counters.h"
#include "support/mutex.h"

namespace tjit::runtime {

class HotProfile;
class ThreadState;
class Tier2;

class ThreadRegistry {
 public:
  // All outlive the registry; `counters` are the process's.
  ThreadRegistry(Tier2* tier2, HotProfile* hot_profile, Counters* counters);
  // The one of the process: of the last constructor. Null before.
  static ThreadRegistry* Get();

  Tier2& tier2() const { return *tier2_; }
  // Sequences that were hot in earlier processes.
  HotProfile& hot_profile() const { return *hot_profile_; }

  // The state of a thread that has none yet; handed back when it ends.
  ThreadState* NewState();
  void ReturnState(ThreadState* state);
  // That of all threads that take no part, for their ops while something is
  // pending on others: each waits for what it reads or writes, and for nothing
  // else. What others record or defer goes on.
  ThreadState* Bystander() const { return bystander_; }
  // All that there are so far; none is ever destroyed.
  std::vector<ThreadState*> States();

  void FlushAll(FlushReason reason);
  // The same, and waits for ops that are just being deferred.
  void FlushAllSurely(FlushReason reason);
  // See FlushAllBeforeChange() in materialize.h.
  void FlushAllBeforeChange();

  // The present store. Whoever looks into it without being a thread that
  // follows it holds it meanwhile: HoldStore(), without mutex_.
  const TraceStore* store() const {
    return store_.load(std::memory_order_acquire);
  }
  std::shared_ptr<TraceStore> HoldStore();
  // `most_kept`: bytes of all that is kept of sequences; 0: any number.
  void SetLimits(const StoreLimits& limits, std::uint64_t most_kept);
  // clear(): an empty store. Each thread goes over to it at its next op.
  void ReplaceStore();
  // A path was added, or had no room: makes room in the background, if need be.
  void MaybeEvict(const std::shared_ptr<TraceStore>& store, bool had_no_room);
  // Has states that no thread has take the present store, so that they keep no
  // old one.
  void LetIdleStatesAdoptStore();

  // True if some path of the store starts with `op`.
  bool IsRootOp(OpId op) const {
    return op < kMaxOps && root_ops_[op].load(std::memory_order_relaxed);
  }
  void RecordRootOp(OpId op) {
    if (op < kMaxOps) root_ops_[op].store(true, std::memory_order_relaxed);
  }

  // Around fork(). Locks all states, then `outer`, whose holders may wait for
  // the registry, then the registry and its store.
  void LockForFork(Mutex* outer) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void UnlockAfterFork(bool is_child) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // Takes a request of `tjit attach`, if there is one (report/attach.h). A log
  // that begins so has rows for the sequences that are hot.
  void LookAtAttach();

  // A line for each thread's state, for the watchdog; waits for no lock.
  std::string DescribeStates();

 private:
  static constexpr OpId kMaxOps = 16384;
  // Plans alone take as much as records.
  static constexpr double kMostRecordShare = 0.5;

  ThreadState* AcquireFreeState() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetStore(std::unique_ptr<TraceStore> store)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Bytes of records, plans and code.
  static std::uint64_t KeptWith(const TraceStore& store);
  // What a store may hold, so that its plans and code fit as well.
  StoreLimits BoundedLimits() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if more than `most_kept_` is kept and forgetting may help; sets the
  // limits of the store. REQUIRES: this thread has set evicting_.
  bool IsOverBound(TraceStore* store);
  void EvictIfOverBound();
  // The worker's part of MaybeEvict(). False if `hurry` was set.
  bool Evict(TraceStore* store, const std::atomic<bool>& hurry);

  Mutex mutex_;
  // Never destroyed.
  std::vector<ThreadState*> states_ ABSL_GUARDED_BY(mutex_);
  std::vector<ThreadState*> free_states_ ABSL_GUARDED_BY(mutex_);
  // What clear() and eviction replace lives as long as a thread follows it.
  std::shared_ptr<TraceStore> held_store_ ABSL_GUARDED_BY(mutex_);
  // held_store_. Written under mutex_, read without.
  std::atomic<TraceStore*> store_;
  StoreLimits store_limits_ ABSL_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> most_kept_{0};
  std::atomic<bool> evicting_{false};
  // Stores that were left: while one lasts its plans count.
  std::vector<std::weak_ptr<TraceStore>> left_stores_ ABSL_GUARDED_BY(mutex_);
  // Records' part of all that is kept, as far as it is known.
  double record_share_ ABSL_GUARDED_BY(mutex_) = kMostRecordShare;
  std::unique_ptr<std::atomic<bool>[]> root_ops_;
  Tier2* const tier2_;
  HotProfile* const hot_profile_;
  Counters* const process_counters_;
  ThreadState* const bystander_;  // never destroyed
};

}  // namespace tjit::runtime

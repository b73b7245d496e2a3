// Owns the trace store, the thread states and the options; the only singleton.
//
// Never destroyed: deleters of the program's tensors may fire after main().
// Tested by: tests/runtime/front_door_test.cpp, odd_moments_test.cpp
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "recorder/explanation.h"
#include "recorder/trace.h"
#include "runtime/report/stats_file.h"
#include "runtime/thread/self_check/modes.h"
#include "runtime/thread/thread_state.h"
#include "tjit/options.h"
#include "tjit/stats.h"

namespace tjit::runtime {

class HotProfile;
class Tier2;

class Runtime {
 public:
  static Runtime& Get();

  // See tjit.h. `for_thread`: only threads inside AutoCompile(kThread).
  bool Enable(const Options& options, bool for_thread);
  void Disable();
  // The instruction log, whether tjit is on or not (instruction_log.h).
  void StartLog(const std::string& path);
  void Clear();

  // The state of a thread that has none yet; handed back when it ends.
  ThreadState* NewThreadState();
  void ReturnThreadState(ThreadState* state);

  void FlushAll(FlushReason reason);
  // The same, and waits for ops that are just being deferred.
  void FlushAllSurely(FlushReason reason);
  // See FlushAllBeforeChange() in materialize.h.
  void FlushAllBeforeChange();
  bool AnyPending() const {
    return pending_threads_.load(std::memory_order_relaxed) != 0;
  }
  void NotePending(bool has_pending) {
    pending_threads_.fetch_add(has_pending ? 1 : -1,
                               std::memory_order_relaxed);
  }

  // The present store. Whoever looks into it without being a thread that
  // follows it holds it meanwhile: HoldStore(), without mutex_.
  const TraceStore* store() const {
    return store_.load(std::memory_order_acquire);
  }
  std::shared_ptr<TraceStore> HoldStore();
  // A path was added, or had no room: makes room in the background, if need be.
  void MaybeEvict(const std::shared_ptr<TraceStore>& store, bool had_no_room);
  // Has states that no thread has take the present store, so that they keep no
  // old one.
  void TakeStoreToIdleStates();
  // False while disable() waits for what is pending.
  bool may_defer() const { return may_defer_.load(std::memory_order_relaxed); }
  // Test modes and TJIT_SHADOW, TJIT_STRICT (modes.h), and a number that each
  // such enable() raises; 0: none so far.
  unsigned modes() const { return modes_.load(std::memory_order_relaxed); }
  bool hiding() const { return (modes() & kModeHide) != 0; }
  std::uint64_t shuffle_seed() const { return shuffle_seed_; }
  std::int64_t hot_threshold() const {
    return hot_threshold_.load(std::memory_order_relaxed);
  }
  bool compile_all() const {
    return compile_all_.load(std::memory_order_relaxed);
  }
  bool debug_compile() const {
    return debug_compile_.load(std::memory_order_relaxed);
  }

  // True if some path of the store starts with `op`.
  bool IsRootOp(OpId op) const {
    return op < kMaxOps && root_ops_[op].load(std::memory_order_relaxed);
  }
  void NoteRootOp(OpId op) {
    if (op < kMaxOps) root_ops_[op].store(true, std::memory_order_relaxed);
  }

  // Compiles segments in the background; off unless the backend has code.
  Tier2& tier2() { return *tier2_; }
  // Sequences that were hot in earlier processes.
  HotProfile& hot_profile() { return *hot_profile_; }

  // A line for each thread's state, for the watchdog; waits for no lock.
  std::string DescribeStates();

  Stats Collect();
  Counters& process_counters() { return process_counters_; }
  // What there is to say about it (explain.cpp).
  Explanation Explain(const Stats& stats);
  void WriteStats();

 private:
  std::string WhyNoOps() const;
  static constexpr OpId kMaxOps = 16384;

  Runtime();
  ~Runtime() = delete;
  bool MayInstall();
  void InstallOnce();
  std::vector<ExplainedOp> EagerOps();
  std::vector<ThreadState*> States();
  ThreadState* TakeFreeState();
  void LockForFork();
  void LockStatesForFork();
  void UnlockAfterFork(bool is_child);
  // REQUIRES: mutex_ is held.
  void SetStore(std::unique_ptr<TraceStore> store);
  // The worker's part of MaybeEvict(). False if `hurry` was set.
  bool Evict(TraceStore* store, const std::atomic<bool>& hurry);

  std::mutex mutex_;  // guards states, the store, Enable and Disable
  std::vector<std::unique_ptr<ThreadState>> states_;
  std::vector<ThreadState*> free_states_;
  // What clear() and eviction replace lives as long as a thread follows it.
  std::shared_ptr<TraceStore> held_store_;
  std::atomic<TraceStore*> store_;  // held_store_
  StoreLimits store_limits_;
  std::atomic<bool> evicting_{false};
  std::unique_ptr<std::atomic<bool>[]> root_ops_;
  std::atomic<int> pending_threads_{0};
  std::atomic<bool> may_defer_{true};
  std::atomic<unsigned> modes_{0};
  unsigned modes_epoch_ = 0;
  std::uint64_t shuffle_seed_ = 0;
  std::atomic<std::int64_t> hot_threshold_{10};
  std::atomic<bool> compile_all_{false};
  std::atomic<bool> debug_compile_{false};
  std::string stats_path_;
  StatsFile stats_file_;
  bool installed_ = false;
  bool was_enabled_ = false;
  // Why nothing may be installed; empty while that is not known.
  std::string inert_;
  Counters process_counters_;
  Tier2* const tier2_;
  HotProfile* const hot_profile_;
};

// Writes the statistics to TJIT_STATS (stats_file.h).
void WriteStatsFile();

}  // namespace tjit::runtime

// Switches tjit on and off, and owns what there is once: the registry of
// threads, tier 2, the profile.
//
// Never destroyed: deleters of the program's tensors may fire after main().
// Tested by: tests/runtime/front_door_test.cpp, odd_moments_test.cpp
#pragma once

#include <string>
#include <vector>

#include "recorder/explanation.h"
#include "runtime/report/stats_file.h"
#include "runtime/thread/thread_registry.h"
#include "support/mutex.h"
#include "tjit/options.h"
#include "tjit/stats.h"

namespace tjit::runtime {

class HotProfile;
class Tier2;

// How many tjit::Pause of this thread live.
int& PausesOfThread();

class Runtime {
 public:
  static Runtime& Get();

  // See tjit.h. `for_thread`: only threads inside AutoCompile(kThread).
  bool Enable(const Options& options, bool for_thread);
  void Disable();
  // The instruction log, whether tjit is on or not (instruction_log.h).
  void StartLog(const std::string& path);
  void Clear();

  // The state of a thread that has none yet.
  ThreadState* NewThreadState();
  ThreadRegistry& threads() { return *threads_; }

  // Compiles segments in the background; off unless the backend has code.
  Tier2& tier2() { return *tier2_; }
  // Sequences that were hot in earlier processes.
  HotProfile& hot_profile() { return *hot_profile_; }

  Stats Collect();
  Counters& process_counters() { return process_counters_; }
  // What there is to say about it (explain.cpp).
  Explanation Explain(const Stats& stats);
  // The named regions that were entered; what they are split into is that of
  // the body that was replayed most.
  std::vector<ExplainedRegion> ExplainRegions();
  // At exit, without mutex_: a thread that has ended may have held it.
  void WriteStats() ABSL_NO_THREAD_SAFETY_ANALYSIS;

 private:
  std::string WhyNoOps() const ABSL_NO_THREAD_SAFETY_ANALYSIS;

  Runtime();
  ~Runtime() = delete;
  bool MayInstall() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void InstallOnce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<ExplainedOp> EagerOps();
  // Without mutex_: the file is told of a fork by nobody else.
  void KeepStatsForChild() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void LockForFork();
  void UnlockAfterFork(bool is_child);

  // Also one Enable() or StartLog() at a time. A fork takes it behind the
  // mutexes of all states, and before that of the registry.
  Mutex mutex_;
  std::string stats_path_ ABSL_GUARDED_BY(mutex_);
  StatsFile stats_file_ ABSL_GUARDED_BY(mutex_);
  bool installed_ ABSL_GUARDED_BY(mutex_) = false;
  bool was_enabled_ ABSL_GUARDED_BY(mutex_) = false;
  // Why nothing may be installed; empty while that is not known.
  std::string inert_ ABSL_GUARDED_BY(mutex_);
  Counters process_counters_;
  Tier2* const tier2_;
  HotProfile* const hot_profile_;
  ThreadRegistry* const threads_;
};

// Writes the statistics to TJIT_STATS (stats_file.h).
void WriteStatsFile();

}  // namespace tjit::runtime

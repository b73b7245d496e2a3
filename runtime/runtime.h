// Switches tjit on and off, and owns what there is once: the registry of
// threads, tier 2, the profile.
//
// Never destroyed: deleters of the program's tensors may fire after main().
// Tested by: tests/runtime/front_door_test.cpp, odd_moments_test.cpp
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "recorder/explanation.h"
#include "runtime/report/stats_file.h"
#include "runtime/thread/thread_registry.h"
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
  void WriteStats();

 private:
  std::string WhyNoOps() const;

  Runtime();
  ~Runtime() = delete;
  bool MayInstall();
  void InstallOnce();
  std::vector<ExplainedOp> EagerOps();
  void LockForFork();
  void UnlockAfterFork(bool is_child);

  // Guards what follows, Enable() and StartLog(). A fork takes it behind the
  // mutexes of all states, and before that of the registry.
  std::mutex mutex_;
  std::string stats_path_;
  StatsFile stats_file_;
  bool installed_ = false;
  bool was_enabled_ = false;
  // Why nothing may be installed; empty while that is not known.
  std::string inert_;
  Counters process_counters_;
  Tier2* const tier2_;
  HotProfile* const hot_profile_;
  ThreadRegistry* const threads_;
};

// Writes the statistics to TJIT_STATS (stats_file.h).
void WriteStatsFile();

}  // namespace tjit::runtime

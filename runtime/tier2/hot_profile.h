// Hot profiles: what earlier processes of this program promoted, read when the
// first op comes and written when the process ends.
//
//   TJIT_PROFILE=FILE   there
//   TJIT_PROFILE=off    nowhere
//   neither             in the cache folder, one file for each program and
//                       script, where the environment switched tjit on
//
// Invariant: (1) A profile that was published does not change and is never
// freed: threads walk it without a lock. (2) Nothing in a file stops a program:
// what is wrong is said once, and the file is replaced.
// Thread: any. Reading is done by the worker of tier 2.
// Tested by: tests/runtime/tier2/hot_profile_test.cpp,
// tests/runtime/tier2/worker_jobs_test.cpp, tests/acceptance/profile_test.py
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "recorder/profile.h"
#include "recorder/trace.h"
#include "runtime/tier2/profile_file.h"
#include "support/mutex.h"

namespace tjit::runtime {

class Tier2;

class HotProfile {
 public:
  HotProfile();

  // Null: nothing is known.
  const Profile* known() const {
    return known_.load(std::memory_order_acquire);
  }

  // enable(), with the folder of compiled code.
  void Configure(const std::string& cache_dir);
  // tjit sees ops: the file is read, on the worker. Does something once.
  void OnFirstOp(Tier2* tier2);
  // Code of the steps up to `last` was asked for.
  void RecordCode(const TraceNode* last, ProfileSegment segment);
  // Forgets what was noted of nodes that `store` has not.
  void KeepCodeOf(const TraceStore& store);
  // clear(): nothing is known any more.
  void Forget();
  // The process ends. `has_warned`: the folder's state was said already.
  void SaveAtExit(const TraceStore& store, bool has_warned);

  void LockForFork() { mutex_.LockForFork(); }
  void UnlockAfterFork() { mutex_.UnlockAfterFork(); }

  // For tjit::prewarm() and tjit::save_profile(). THROW c10::Error that names
  // file and cause. Return the number of sequences.
  std::int64_t Prewarm(const std::string& file, Tier2* tier2);
  std::int64_t Save(const std::string& file, const TraceStore& store);

 private:
  // False if it was stopped. `clears`: clear() calls before it was asked for;
  // what comes behind another one is not published.
  bool Load(int clears, const std::atomic<bool>& stop);
  void SaveNews(const TraceStore& store, bool has_warned);
  // Returns it; null if there is nothing in it.
  const Profile* Publish(std::unique_ptr<Profile> profile)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What is hot now and not in `known`, if that is not null. Looks at no more
  // steps than a profile may have: a program must not be long in ending.
  void Collect(const TraceStore& store, const Profile* known, Profile* profile);

  const pid_t pid_;
  std::atomic<const Profile*> known_{nullptr};
  Mutex mutex_;  // taken last
  bool was_read_ ABSL_GUARDED_BY(mutex_) = false;
  int clears_ ABSL_GUARDED_BY(mutex_) = 0;
  // What was read, one of profiles_.
  const Profile* in_file_ ABSL_GUARDED_BY(mutex_) = nullptr;
  ProfilePlace place_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Profile>> profiles_ ABSL_GUARDED_BY(mutex_);
  // By id of the node: a store and its copies have the same.
  std::vector<std::pair<std::uint32_t, ProfileSegment>> code_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tjit::runtime

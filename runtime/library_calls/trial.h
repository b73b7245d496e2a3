// Whether a step of our own has eager's bits is not assumed but tried: both run
// once on random data. Verdicts are kept by all that the bits depend on.
// Thread: a trial runs in the state that its step is prepared for.
// Tested by: tests/runtime/library_calls/library_calls_test.cpp,
// kept_fft_test.cpp
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/call/kernel_state.h"
#include "runtime/library_calls/internal.h"
#include "support/mutex.h"

namespace tjit::runtime {

// Those of the recorded call.
std::vector<ScalarValue> ScalarsOf(const Request& request);

// Runs `step` over random numbers; returns the bytes of the first result.
// REQUIRES: tensors of f32, or f64, or of complex numbers of these.
std::string RunOnRandom(const Request& request, PreparedStep* step);

inline bool HaveSameBits(const Request& request, PreparedStep* a,
                         PreparedStep* b) {
  return RunOnRandom(request, a) == RunOnRandom(request, b);
}

// By key, and by the state that kernels read.
template <class Key>
class TrialVerdicts {
 public:
  // `compute` may give none: false this time, and asked again. As it is where
  // it may not be called: `trials` says so, and is told that it was wanted.
  // Null: it may be, as what it saves (a transform) is won back soon.
  template <class F>
  bool Of(const Key& key, Trials* trials, F&& compute) {
    const std::tuple<Key, std::uint64_t> at(key, GlobalContext::Now().word);
    {
      const MutexLock lock(mutex_);
      const auto it = verdicts_.find(at);
      if (it != verdicts_.end()) return it->second;
    }
    if (trials != nullptr && !trials->are_allowed) {
      trials->are_wanted = true;
      return false;
    }
    const std::optional<bool> verdict = compute();
    if (!verdict) return false;
    const MutexLock lock(mutex_);
    verdicts_.emplace(at, *verdict);
    return *verdict;
  }

 private:
  Mutex mutex_;
  absl::flat_hash_map<std::tuple<Key, std::uint64_t>, bool> verdicts_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace tjit::runtime

// Prepared steps, shared by all steps of a thread that differ only in which
// storages they use.
//
// An optimizer calls the same ten ops for every parameter, a deep net the same
// layer again and again: a step of 5,000 ops has about 100 different ones. A
// prepared step with its iterator takes kilobytes; one for each step would
// leave the cache before it is used again.
//
//   add_(s7, s9) and add_(s12, s3), both [64, 64]  ->  add_(s0, s1)
//
// A class has slots of its own, numbered by first use in the step; whoever
// runs it says where they lie.
//
// Invariant: steps of one class are equal in everything but the numbers of
// their slots; compared in full. Thread: one set per ThreadState; a class is
// not re-entrant. Tested by: tests/runtime/replay_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "recorder/trace.h"
#include "runtime/library_calls/executor_tensors.h"
#include "runtime/library_calls/library_call.h"
#include "support/counters.h"
#include "support/kept_bytes.h"

namespace tjit::runtime {

// What a class is found by: all that preparing looks at.
struct StepKey {
  const StepRecord& step;  // with slots of the class
  const CapturedCall& call;
  const std::vector<std::uint64_t>& bytes;  // of the slots
  std::uint64_t global;                     // GlobalContext::word
};

class StepClass {
 public:
  // Of a key with these parts.
  StepClass(StepRecord step, std::shared_ptr<void> call,
            std::vector<std::uint64_t> bytes, std::uint64_t global);
  bool IsOf(const StepKey& key) const;

  // Prepares the step, without trials if it can be told later which way is the
  // best. REQUIRES: its context is set on this thread.
  void Prepare(Counters* counters);
  // It was to try which of two ways is right.
  bool wants_trials() const { return wants_trials_; }
  // Prepares it once more, and lets it. Programs that were made with the step
  // stay good, and are better made again. REQUIRES: as above.
  void PrepareWithTrials(Counters* counters);
  // So often.
  std::uint32_t times_tried() const { return times_tried_; }

  PreparedStep& prepared() { return *prepared_; }
  // The eager way; for drains.
  PreparedStep& boxed();
  // Points the tensors of the class at its slots.
  void Bind(char* const* slots) {
    for (std::size_t s = 0; s < bytes_.size(); ++s) {
      tensors_.Bind(static_cast<std::int32_t>(s), slots[s]);
    }
  }

 private:
  const CapturedCall& call() const {
    return *static_cast<const CapturedCall*>(call_.get());
  }

  const StepRecord step_;
  const std::shared_ptr<void> call_;
  const std::vector<std::uint64_t> bytes_;
  const std::uint64_t global_;
  ExecutorTensors tensors_;
  std::unique_ptr<PreparedStep> prepared_;
  bool wants_trials_ = false;
  std::uint32_t times_tried_ = 0;
  std::unique_ptr<PreparedStep> boxed_;  // made at first use
  KeptShare kept_{Kept::kPlans};
};

class StepClasses {
 public:
  // The class of a node's step, prepared; `slots` gets the step's slots in the
  // order of the class. REQUIRES: the step's context is set on this thread,
  // and the process's state is the one that the step is to run under.
  StepClass* For(const TraceNode& node,
                 const std::vector<std::uint64_t>& slot_bytes,
                 std::vector<std::int32_t>* slots, Counters* counters);
  void KeepOnly(const absl::flat_hash_set<const StepClass*>& used) {
    std::erase_if(classes_, [&](const auto& c) {
      return !used.contains(c.second.get());
    });
  }
  void Clear() { classes_.clear(); }
  std::size_t size() const { return classes_.size(); }

 private:
  // By hash of the key. A text of the key would take as much as the step.
  std::unordered_multimap<std::size_t, std::unique_ptr<StepClass>> classes_;
};

}  // namespace tjit::runtime

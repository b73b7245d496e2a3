// Prepared segments: the executable form of a contiguous part of a path, one
// per (path, begin), with one memory plan per observed live-out mask.
//
// Thread: one cache per ThreadState; used under its mutex.
// Tested by: tests/runtime/thread_state_test.cpp, tests/differential/
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/executable.h"
#include "recorder/counters.h"
#include "recorder/trace.h"
#include "runtime/executor_tensors.h"
#include "runtime/library_calls.h"
#include "runtime/op_context.h"
#include "runtime/run.h"

namespace tjit::runtime {

class PreparedSegment {
 public:
  // `nodes` is run.pending: deferred steps of one path, in order.
  explicit PreparedSegment(const std::vector<TraceNode*>& nodes);

  // Runs the segment over the storages of `run`: tier 1.
  void Execute(const Run& run, Counters* counters);
  // Runs every step through the eager kernel: the fallback.
  void Drain(const Run& run, Counters* counters);

 private:
  struct TierStep {
    PreparedStep* step = nullptr;
    PreparedSegment* segment = nullptr;
    std::uint32_t context = 0;
  };
  struct Variant {
    std::vector<std::uint8_t> live;  // by slot
    std::unique_ptr<Executable> executable;
  };

  static void RunTierStep(void* state, char* const* slots,
                          const ScalarValue* scalars);
  void PrepareAll(Counters* counters);
  Variant& VariantFor(const Run& run, Counters* counters);
  std::vector<PlanStep> PlanSteps() const;
  std::vector<PlanSlot> PlanSlots(const std::vector<std::uint8_t>& live) const;
  // First bytes of all slots; those without a block stay null.
  void FillPointers(const Run& run);

  std::vector<TraceNode*> nodes_;
  std::vector<std::uint64_t> slot_bytes_;  // by slot of the path
  std::vector<std::int32_t> born_;         // by slot: index into nodes_, or -1
  ExecutorTensors tensors_;
  std::vector<std::unique_ptr<PreparedStep>> steps_;
  std::vector<std::unique_ptr<PreparedStep>> boxed_;  // for drains; lazy
  std::vector<TierStep> tier_steps_;
  std::vector<std::int32_t> tensor_slots_;  // slots to bind before a run
  std::vector<Variant> variants_;
  std::vector<char*> pointers_;
  std::vector<std::uint8_t> live_;
  ContextScope* scope_ = nullptr;  // of the run in progress
};

class SegmentCache {
 public:
  // The segment of run.pending; made at first use.
  PreparedSegment& For(const Run& run);
  void Clear() { segments_.clear(); }

 private:
  // Key: id of the last node, depth of the first.
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<PreparedSegment>>
      segments_;
};

}  // namespace tjit::runtime

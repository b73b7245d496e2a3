// What a ThreadState has besides while a mode of modes.h is on, or a run is
// compared that TJIT_SHADOW=sample:N has chosen.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/platform/settings.h"
#include "runtime/segment/prepared_segment.h"
#include "runtime/segment/shared_step.h"
#include "runtime/thread/pending_queue.h"
#include "runtime/thread/self_check/eager_copies.h"
#include "runtime/thread/self_check/nan_check.h"
#include "runtime/thread/self_check/sequence_recorder.h"
#include "runtime/thread/self_check/stress_check.h"
#include "runtime/thread/step_recorder.h"

namespace tjit::runtime {

// TJIT_STRESS=late: one-off records of the pending ops, see stress_late.cpp.
struct LateRecords {
  StepRecorder capture;
  std::size_t slots_before = 0;  // of the run, before the record that is open
  TraceNode top;
  std::vector<std::unique_ptr<TraceNode>> nodes;
  // The recorded value of a scalar that may vary is that of its first sighting,
  // as in a trace: by op, position and value class.
  absl::flat_hash_map<std::string, ScalarValue> first_scalars;
  StepClasses classes;
  std::unique_ptr<PreparedSegment> segment;  // of the last flush
};

// An op that runs eagerly now and will be pending then. The state is locked
// meanwhile: a flush by another thread would meet eager's bits in the blocks.
struct OpenCall {
  explicit OpenCall(StateLock l) : lock(std::move(l)) {}

  StateLock lock;
  TraceNode* node = nullptr;      // shadow: the step that matched; late: null
  std::size_t slots_before = 0;   // of the run, without this op's
};

struct ModeState {
  // What is replayed is compared with eager.
  bool shadows() const { return (modes & kModeShadow) != 0 || is_sample; }
  // The call has matched `node`, and is about to be opened.
  void BeginShadow(const CallFrame& frame, TraceNode* node, const Run& run);

  unsigned modes = 0;             // the word that this thread saw last
  // The run in progress is one that TJIT_SHADOW=sample:N compares.
  bool is_sample = false;
  bool is_for_sample = false;  // this was made for that run alone
  EagerCopies eager_copies;
  SequenceRecorder calls;         // of shadowed ops, with TJIT_REPRO_DIR
  TraceNode* shadowed = nullptr;  // matched; is about to be opened
  std::optional<OpenCall> open;
  LateRecords late;
  InputCheck check;
  bool checking = false;
  NanCheck nan;
  bool checks_nan = false;
  std::uint64_t random = 0;       // shuffle: state of the generator
};

}  // namespace tjit::runtime

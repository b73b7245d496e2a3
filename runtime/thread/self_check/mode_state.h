// What a ThreadState has besides while a mode of modes.h is on, or for one run:
// TJIT_SHADOW=sample:N has chosen it to be compared, or its calls are recorded
// for a file (asked_sequences.h).
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
  // The pending ops have run: what is recorded of them is kept.
  void KeepPiece(const Run& run);
  // The call has matched `node`. True if it is to be opened, as it is compared.
  bool BeginOp(const CallFrame& frame, TraceNode* node, const Run& run);

  unsigned modes = 0;             // the word that this thread saw last
  // The run in progress is one that TJIT_SHADOW=sample:N compares.
  bool is_sample = false;
  // It is recorded, to be written when it is complete. What ran of it so far,
  // and why it cannot be written, if so.
  bool is_asked = false;
  const TraceNode* asked_root = nullptr;  // where it began; null: it is written
  std::vector<SequencePiece> pieces;
  std::string why_not_written;
  bool is_for_run = false;  // this was made for that run alone
  EagerCopies eager_copies;
  // Of shadowed ops, with TJIT_REPRO_DIR, and of a run that is asked for.
  SequenceRecorder calls;
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

// Records steps in full until a sequence is complete: from calls to the plain
// records of the store.
//
// Slots are numbered by first use over a Run of its own, or over the run that
// was followed so far when a branch is recorded. A step that cannot be
// deferred becomes a kAtCall step, which only holds its place.
//
// Thread: belongs to one ThreadState.
// Tested by: tests/runtime/replay_test.cpp,
// tests/runtime/thread/engagement_test.cpp
#pragma once

#include <ATen/core/stack.h>

#include <cstdint>
#include <vector>

#include "recorder/geometry_pool.h"
#include "recorder/trace.h"
#include "runtime/call/call_frame.h"
#include "runtime/call/trace_run.h"
#include "runtime/thread/match.h"

namespace tjit::runtime {

struct FunctionSession;

// The block of a result that a pending op may have: a new storage of ours that
// nothing else refers to. Null for any other.
Block* FreshBlock(const c10::TensorImpl* impl, const Run& run);

// True for a result without elements in a new storage without bytes: nothing
// is pending of it.
bool IsFreshEmpty(const c10::TensorImpl* impl);

class StepRecorder {
 public:
  // `from`: node that the new steps follow. `length`: steps to record, or 0
  // for "until the program is at a known root again". `run` holds the
  // bindings of the path up to `from`.
  void Start(TraceNode* from, std::uint32_t length, bool at_boundary, Run* run);
  void Stop();
  // Who is told of the first use of storages that no step made; null: nobody.
  void WatchExternals(FunctionSession* session) { watcher_ = session; }

  bool active() const { return active_; }
  TraceNode* from() const { return from_; }
  std::uint32_t length() const { return length_; }
  bool at_boundary() const { return at_boundary_; }
  std::size_t size() const { return steps_.size(); }
  const std::vector<NewStep>& steps() const { return steps_; }
  // The same with a slot for each place.
  std::vector<NewStep> SplitSteps() const;
  // True if the steps read a storage at several places.
  bool has_places() const { return has_places_; }
  // True if some place is known to move: it has in the path that is followed,
  // or is one of many that were drawn.
  bool has_moving_places() const { return has_moving_places_; }
  bool complete() const { return length_ != 0 && steps_.size() == length_; }

  // Before the eager kernel runs: arguments as they are now.
  void Before(CallFrame& frame, std::uint32_t context);
  // After it: results, and the boxed arguments (their tensors are dropped).
  void After(const CallFrame& frame,
             const FrameArray<c10::TensorImpl*, 8>& results,
             torch::jit::Stack boxed);
  // The call threw, or `is_part` of a function: the step is taken back.
  void Discard(bool is_part = false);

  // `splits`: each place of a storage becomes a slot, see Note [Places].
  std::vector<NewStep> ReleaseSteps(bool splits = false);

 private:
  // Both set why_ where they return false.
  bool RecordArguments(CallFrame& frame, NewStep* step);
  bool RecordResults(const CallFrame& frame,
                     const FrameArray<c10::TensorImpl*, 8>& results,
                     NewStep* step);
  bool Cannot(const char* why) {
    why_ = why;
    return false;
  }
  void MakeAtCall(const CallFrame& frame, NewStep* step);
  std::int32_t SlotOf(const c10::TensorImpl* impl, Block* block, Access access,
                      const ArgRecord& arg, NewStep* step);
  bool Moves(std::int32_t bound, const ArgRecord& arg,
             const StepRecord& step) const;
  bool HasMoved(std::int32_t slot, const ArgRecord& arg,
                const StepRecord& step) const;
  std::int32_t PlaceSlot(std::int32_t first, Block* block, std::uint64_t bytes,
                         NewStep* step);
  void RecordOffset(const ArgRecord& arg);
  std::size_t FirstSlot() const;
  bool IsIn(std::int32_t slot, const Block* block) const;
  std::int32_t AddSlot(Block* block, std::uint64_t bytes, bool born,
                       NewStep* step);
  std::int32_t RecordSlot(std::uint64_t bytes, bool born, NewStep* step);

  bool active_ = false;
  bool open_ = false;  // Before() was called, After() not yet
  bool at_boundary_ = false;
  std::uint32_t context_ = 0;  // of the open call
  const char* why_ = "";       // it runs at the call
  TraceNode* from_ = nullptr;
  std::uint32_t length_ = 0;
  std::size_t slots_before_ = 0;
  Run* run_ = nullptr;
  GeometryPool geometries_;
  std::vector<NewStep> steps_;
  // Of each slot of steps_ the offset of its first access in bytes, and whether
  // there are others: see Note [Places] in split_places.h.
  std::vector<std::int64_t> offsets_;
  bool has_places_ = false;
  bool has_moving_places_ = false;
  FunctionSession* watcher_ = nullptr;
};

}  // namespace tjit::runtime

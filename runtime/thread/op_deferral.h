// Appends an op to the pending ones: keeps its arguments as they are, makes
// results whose bytes come later.
//
// The part of a thread's state (thread_state.h) above its pending queue.
// Thread: the owner's, under the mutex of the queue.
// Tested by: tests/runtime/replay_test.cpp,
// tests/runtime/memory/tensor_recycler_test.cpp
#pragma once

#include <cstdint>

#include "recorder/trace.h"
#include "runtime/thread/pending_queue.h"

namespace tjit::runtime {

struct CompactArg;
struct CompactResult;
class CompactStep;

class OpDeferral : public PendingQueue {
 protected:
  using PendingQueue::PendingQueue;

  // Of a run. kEager: nothing is deferred; kWatched: see Note [Observers].
  enum class RunKind : std::uint8_t { kUsual, kEager, kWatched };

  // What the thread keeps of its regions. Null: there is no memory for it.
  RegionVisits* MakeVisits() noexcept;

  void SetRunKind(RunKind kind) {
    run_kind_ = kind;
    run_is_fast_ = kind == RunKind::kUsual;
  }

  // Stands nowhere, and forgets what the last run bound.
  void BeginRun();
  // Binds the call's storages to the slots of `node` and claims them.
  bool BindAndClaim(const CallFrame& frame, const TraceNode& node)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False if there is no memory for the results: nothing has changed then.
  // `made`: the node's compact step, null if it has none yet.
  // `owns_arguments`: pending ops own them all.
  bool Defer(CallFrame& frame, TraceNode* node, const CompactStep* made,
             bool owns_arguments) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UndoDefer(CallFrame& frame, const TraceNode* node)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool IsFastArgument(const c10::TensorImpl* impl, const CompactArg& arg,
                             const SlotBinding& slot);
  bool IsFastCall(const CallFrame& frame, const TraceNode& node,
                  const CompactStep& step) const;
  bool DeferFast(CallFrame& frame, TraceNode* node, const CompactStep& step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The parts of both.
  void BeginPending() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OwnArguments(const CallFrame& frame, const TraceNode* node,
                    const CompactStep& step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddPending(TraceNode* node) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool at_boundary_ = true;          // a sync or mark_step came just before
  TraceNode* cursor_ = nullptr;      // last matched node; null: idle
  TraceNode* eager_node_ = nullptr;  // matched, running eagerly now
  bool run_deferred_ = false;        // an op of this run was deferred
  bool run_is_fast_ = true;  // run_kind_ is kUsual: a register less per op
  RunKind run_kind_ = RunKind::kUsual;

  // A result that pending ops fill and that lives on, as a step in `context`
  // makes it; its block is nobody's yet.
  at::Tensor MakeSurvivor(const CompactResult& result, std::uint32_t context,
                          Block** block);

 private:
  void BeginSegment();
  void KeepScalars(const CallFrame& frame, const TraceNode* node,
                   const CompactStep& step);
  void UseOwnedArguments(const CallFrame& frame, const CompactStep& step);
  void UseSlot(const CompactStep& step, const CompactArg& arg,
               SlotBinding* slot);
  void MakeResults(CallFrame& frame, const TraceNode* node,
                   const CompactStep& step);
  void OwnNew(Block* block, std::uint32_t s);
  void RunFullQueue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  at::Tensor MakeDeferred(const CompactResult& result, bool dies);
  at::Tensor AcquireRecycled(const CompactResult& result, bool dies,
                             Block** block);
  at::Tensor MakeAnew(const CompactResult& result, bool dies, Block** block);
};

}  // namespace tjit::runtime

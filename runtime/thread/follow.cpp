// The half of ThreadState that follows a trace: finds the step that a call is,
// claims what it needs and hands it to Defer(). See fast_path.cpp first.
#include "recorder/step_shape.h"
#include "runtime/call/interpose.h"
#include "runtime/call/value_checks.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/segment/compact_step.h"
#include "runtime/thread/exit_notes.h"
#include "runtime/thread/loop_state.h"
#include "runtime/thread/match.h"
#include "runtime/thread/self_check/mode_state.h"
#include "runtime/thread/size_cuts.h"
#include "runtime/thread/thread_state.h"

namespace tjit::runtime {

TraceNode* TraceCursor::FindChild(TraceNode* from, CallFrame& frame,
                                  BailReason* why) {
  const auto matches = [&](TraceNode* n, BailReason* why_shape) {
    if (!MatchNode(frame, context_, *n, why_shape)) return false;
    if (n->step.kind == StepKind::kAtCall) return true;
    if (frame.entry.may_throw_on_values && !ValuesPassWhenReady(frame) &&
        !Planted(Defect::kLateError)) {
      *why = BailReason::kValuesUnchecked;
      return false;
    }
    return BindSlots(frame, *n, &run_, why);
  };
  TraceNode* const first = from == store_->top() ? root_ : from->likely.load();
  if (first == nullptr) {  // no child was followed yet
    TraceNode* n = from->first_child.load();
    while (n != nullptr && !matches(n, why)) n = n->next_sibling.load();
    return n;
  }
  if (matches(first, why)) return first;
  const BailReason first_why = *why;
  const auto find = [&](std::uint64_t shape, StepKind kind, std::uint32_t id) {
    return store_->children().Find(from, shape, [&](TraceNode* n) {
      return n != first && n->step.kind == kind && n->id > id &&
             matches(n, nullptr);
    });
  };
  TraceNode* const at_call =
      find(AtCallShape(frame.entry.id, context_), StepKind::kAtCall, 0);
  // What was recorded last holds, but for first steps.
  const bool all = at_call == nullptr || from == store_->top();
  TraceNode* const other = find(ShapeOf(frame, context_), StepKind::kDeferred,
                                all ? 0 : at_call->id);
  *why = first_why;
  return other != nullptr ? other : at_call;
}

bool TraceCursor::ValuesPassWhenReady(CallFrame& frame) {
  if (LookAtValues(frame) != ValueVerdict::kNotReady) return ValuesPass(frame);
  FlushLocked(FlushReason::kValueCheck);
  return ValuesPass(frame);
}

void PendingQueue::FlushForeignOwners(const CallFrame& frame) {
  for (const TensorRef& ref : frame.tensors) {
    if (ref.impl == nullptr) continue;
    const c10::StorageImpl* storage = StorageOf(ref.impl);
    Block* const block = storage == nullptr ? nullptr : BlockOf(storage);
    if (block == nullptr) continue;
    PendingQueue* owner = block->owner.load(std::memory_order_acquire);
    if (owner != nullptr && owner != this) {
      owner->Flush(FlushReason::kOtherThread);
    }
    if (ref.written) FlushReaders(block, FlushReason::kOtherThread);
  }
}

bool TraceCursor::TryFollow(CallFrame& frame, Decision* decision) {
  BailReason why = BailReason::kOpDiffers;
  TraceNode* node = nullptr;
  for (;;) {
    StateLock lock(this);
    const std::size_t slots_before = run_.slots.size();
    node = FindChild(cursor_, frame, &why);
    if (node != nullptr && run_deferred_ && EndsAtCut(*cursor_, *node)) {
      UnbindFrom(&run_, slots_before);
      node = nullptr;
    }
    if (node == nullptr) break;
    // A trial is of the steps of the trace that the run began with.
    const bool is_eager = run_kind_ == RunKind::kEager && root_ != nullptr &&
                          node->owner.load(std::memory_order_relaxed) ==
                              root_->owner.load(std::memory_order_relaxed);
    const bool defers = node->hot.load(std::memory_order_relaxed) &&
                        !is_eager && !LearnsCalls(*node) &&
                        node->step.kind == StepKind::kDeferred &&
                        g_settings.may_defer();
    if (defers && !ClaimSlots(SlotArgs(*node))) {
      const bool runs_first = MustRunFirst(node->step);
      UnbindFrom(&run_, slots_before);
      if (runs_first && run_.pending.empty()) {  // it would be so again
        why = BailReason::kSlotDiffers;
        node = nullptr;
        break;
      }
      if (runs_first) FlushLocked(FlushReason::kSharedStorage);
      lock.Unlock();
      FlushForeignOwners(frame);
      continue;
    }
    *decision = Advance(frame, node, defers);
    if (*decision == Decision::kDeferred) {
      lock.Unlock();
      if (run_kind_ == RunKind::kWatched) [[unlikely]] ShowCalls(*node);
      return true;
    }
    if (modes_ != nullptr && modes_->shadowed != nullptr) {
      OpenShadow(std::move(lock));
      return true;
    }
    break;
  }
  if (node != nullptr) {
    MakeReady(frame);
    if (eager_node_ != nullptr && LearnsCalls(*node)) LearnCalls(frame, node);
    return true;
  }
  if (cursor_->parent != nullptr &&
      (cursor_->ends.load(std::memory_order_acquire) != nullptr ||
       CutAt(cursor_, why, *loops_, store_.get(), registry_, &counters_))) {
    FinishRun(FlushReason::kSegmentEnd);
  } else {
    if (run_deferred_ && cursor_->parent != nullptr) {
      RecordExit(*cursor_, frame, run_, why, store_->lineage());
    }
    loops_->exit_shape =
        why == BailReason::kMetaDiffers ? ShapeOf(frame, context_) : 0;
    LeaveTrace(why);
  }
  return false;
}

inline void TraceCursor::MoveCursor(TraceNode* node) {
  if (cursor_ != store_->top() &&
      cursor_->likely.load(std::memory_order_relaxed) != node) {
    cursor_->likely.store(node, std::memory_order_relaxed);
  }
  cursor_ = node;
}

Decision TraceCursor::Advance(CallFrame& frame, TraceNode* node, bool defers) {
  MoveCursor(node);
  if (defers) {
    if (modes_ != nullptr && modes_->BeginOp(frame, node, run_)) [[unlikely]]
      return Decision::kEager;
    return AdvanceDeferred(frame, node);
  }
  CountEager(frame);
  if (node->step.kind == StepKind::kAtCall) {
    if (!run_deferred_) ObserveToken(frame, HotDetector::kPlain);
    return Decision::kEager;
  }
  if (const std::exception_ptr e = RunPending(FlushReason::kSegmentEnd)) {
    UnbindFrom(&run_, node->slot_begin);
    cursor_ = node->parent;
    std::rethrow_exception(e);
  }
  ObserveToken(frame, HotDetector::kPlain);
  eager_node_ = node;
  return Decision::kEager;
}

}  // namespace tjit::runtime

// TJIT_STRESS=late: every op that may be deferred is, from its first sighting.
//
// Nothing is known of an op then, so it is recorded as a capture would record
// it: a StepRecord from the call and from the eager kernel, which runs at once
// on eager's bits (eager_copies.h). The record becomes a one-off node, the nodes of
// what is pending a one-off segment, and that runs, plans its memory and is
// drained like any other. A run ends with every flush.
#include "runtime/platform/settings.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/segment/compact_step.h"
#include "runtime/thread/copied_slot.h"
#include "runtime/thread/match.h"
#include "runtime/thread/self_check/mode_state.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/thread/thread_state.h"

namespace tjit::runtime {
namespace {

// One-off steps that stay prepared.
constexpr std::size_t kMaxClasses = 4096;

std::string ScalarKey(OpId op, std::size_t index, const ScalarRecord& scalar) {
  const std::uint64_t words[] = {op, index, scalar.value.type,
                                 scalar.value_class};
  return {reinterpret_cast<const char*>(words), sizeof(words)};
}

// What was recorded of scalars that may vary is another call's, as it is where
// a trace is replayed.
void UseFirstScalars(LateRecords* late, NewStep* step) {
  std::vector<ScalarValue> values;
  bool any = false;
  for (std::size_t i = 0; i < step->step.scalars.size(); ++i) {
    ScalarRecord& scalar = step->step.scalars[i];
    if (scalar.may_vary) {
      any = true;
      scalar.value =
          late->first_scalars
              .try_emplace(ScalarKey(step->step.op, i, scalar), scalar.value)
              .first->second;
    }
    values.push_back(scalar.value);
  }
  if (!any) return;
  auto* call = static_cast<CapturedCall*>(step->payload.get());
  const std::vector<at::Tensor> none(step->step.args.size());
  call->arguments = FillArguments(*call, none, values.data());
}

}  // namespace

Decision ThreadState::AtCall(CallFrame& frame) {
  CountEager(frame);
  MakeReady(frame);
  return Decision::kEager;
}

void ThreadState::BeginLateRun() {
  BeginRun();
  LateRecords& late = modes_->late;
  late.segment.reset();
  late.nodes.clear();
  if (late.classes.size() > kMaxClasses) late.classes.Clear();
}

// Memory that the program fills by itself was copied at its first use.
bool ThreadState::HasStaleCopy(const CallFrame& frame) const {
  for (const TensorRef& ref : frame.tensors) {
    if (ref.impl == nullptr || !IsPlain(ref.impl) || ref.impl->numel() == 0 ||
        !MayBeCopied(StorageOf(ref.impl))) {
      continue;
    }
    const ByteRange range = RangeOf(ref.impl);
    for (const SlotBinding& slot : run_.slots) {
      if (slot.copied && CopyCovers(slot, range) && !HasBytesOf(slot, range)) {
        return true;
      }
    }
  }
  return false;
}

// True if the op may be pending: its record has begun.
bool ThreadState::RecordLate(CallFrame& frame) {
  if (run_.pending.empty()) BeginLateRun();
  if (!g_settings.may_defer() || frame.entry.op_class != OpClass::kPlain) {
    return false;
  }
  if (HasStaleCopy(frame)) {
    FlushLocked(FlushReason::kOpAtCall);
    BeginLateRun();
  }
  if ((frame.entry.may_throw_on_values || frame.entry.may_warn) &&
      !ValuesPassWhenReady(frame)) {
    return false;
  }
  if (run_.pending.empty()) BeginLateRun();
  StepRecorder& capture = modes_->late.capture;
  modes_->late.slots_before = run_.slots.size();
  capture.Start(&modes_->late.top, 0, false, &run_);
  capture.Before(frame, context_);
  if (capture.steps().back().step.kind == StepKind::kDeferred) return true;
  capture.Stop();
  return false;
}

Decision ThreadState::CallLate(CallFrame& frame) {
  for (;;) {
    StateLock lock(this);
    if (!RecordLate(frame)) break;
    StepRecorder& capture = modes_->late.capture;
    if (ClaimSlots(SlotArgs(capture.steps().back().step))) {
      OpenCallFor(capture.steps().back().step, nullptr,
                  modes_->late.slots_before, std::move(lock));
      frame.wants_capture = true;
      return Decision::kEager;
    }
    capture.Discard();
    capture.Stop();
    lock.Unlock();
    FlushForeignOwners(frame);
  }
  return AtCall(frame);
}

// The node of the op that has just run; null if it cannot be pending.
TraceNode* ThreadState::RecordedLate(CallFrame& frame,
                                     const ResultList& results,
                                     torch::jit::Stack* boxed) {
  LateRecords& late = modes_->late;
  late.capture.After(frame, results.items(), std::move(*boxed));
  NewStep step = std::move(late.capture.ReleaseSteps().front());
  if (step.step.kind != StepKind::kDeferred) return nullptr;
  UseFirstScalars(&late, &step);
  auto node = std::make_unique<TraceNode>();
  if (!late.nodes.empty()) {
    TraceNode* parent = late.nodes.back().get();
    node->parent = parent;
    node->depth = parent->depth + 1;
    node->scalar_begin =
        parent->scalar_begin +
        static_cast<std::uint32_t>(parent->step.scalars.size());
    node->slot_begin = parent->slot_end();
  }
  node->step = std::move(step.step);
  node->new_slots = std::move(step.new_slots);
  node->payload = std::move(step.payload);
  late.nodes.push_back(std::move(node));
  counters_.ops_late.Add();
  return late.nodes.back().get();
}

PreparedSegment& PendingQueue::SegmentInMode() {
  LateRecords& late = modes_->late;
  if (late.nodes.empty() || late.nodes.back().get() != run_.pending.back()) {
    return segments_.For(run_, pending_global_);
  }
  late.segment = std::make_unique<PreparedSegment>(
      run_.pending, &late.classes, segments_.compiler(),
      std::make_shared<CodeOfSizes>());
  return *late.segment;
}

}  // namespace tjit::runtime

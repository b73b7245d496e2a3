// The part of TraceCursor that shows observers what a followed trace defers
// (Note [Observers] in observers.h).
#include <ATen/record_function.h>

#include <memory>
#include <utility>

#include "runtime/call/inner_calls.h"
#include "runtime/platform/thread_context.h"
#include "runtime/segment/compact_step.h"
#include "runtime/thread/observers.h"
#include "runtime/thread/thread_state.h"

namespace tjit::runtime {
namespace {

// The state that stands in nobody's way: no kernel runs, no lock is held.
ThreadState* FreeState() {
  const ThreadContext& c = t_context;
  return c.inside == 0 && c.held == nullptr ? c.state : nullptr;
}

}  // namespace

void BeforeWatchersChange() {
  if (ThreadState* state = FreeState()) {
    state->Flush(FlushReason::kContextChange);
  }
}

void AfterWatchersChange() {
  if (at::hasCallbacks()) g_was_watched.store(true, std::memory_order_relaxed);
  if (ThreadState* state = FreeState()) state->OnWatchersChange();
}

void TraceCursor::OnWatchersChange() {
  if (cursor_ == nullptr || modes_ != nullptr || run_kind_ == RunKind::kEager) {
    return;
  }
  SetRunKind(at::hasCallbacks() ? RunKind::kWatched : RunKind::kUsual);
}

// True if the step is to run at the call, as what it calls is not known.
bool TraceCursor::LearnsCalls(const TraceNode& node) const {
  if (run_kind_ != RunKind::kWatched) [[likely]] return false;
  const CompactStep* const step = CompactStep::Of(node);
  return step == nullptr || step->inner_calls() == nullptr;
}

void TraceCursor::LearnCalls(const CallFrame& frame, TraceNode* node) {
  CompactStep::Make(node, !frame.entry.may_throw_on_values);
  BeginLearningCalls();
}

void TraceCursor::KeepLearntCalls(const TraceNode& node) {
  std::unique_ptr<const InnerCalls> calls = EndLearningCalls();
  if (calls == nullptr) return;
  CompactStep::Of(node)->KeepInnerCalls(std::move(calls));
}

void TraceCursor::ShowCalls(const TraceNode& node) {
  CompactStep::Of(node)->inner_calls()->Show();
}

}  // namespace tjit::runtime

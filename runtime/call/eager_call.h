// What wrappers see of the thread state: ask it, run the kernel, tell it.
//
// Kept apart from thread_state.h, so that the typed wrappers (many, slow to
// compile) do not depend on its insides.
#pragma once

#include <ATen/core/stack.h>

#include <utility>

#include "runtime/call/call_frame.h"
#include "runtime/platform/thread_context.h"

namespace tjit::runtime {

// Results of an eager call, flattened; null where undefined.
class ResultList {
 public:
  void Add(const at::Tensor& t) {
    items_.push_back(t.defined() ? t.unsafeGetTensorImpl() : nullptr);
  }
  const FrameArray<c10::TensorImpl*, 8>& items() const { return items_; }

 private:
  FrameArray<c10::TensorImpl*, 8> items_;
};

// ThreadState::OnCall, AfterEager and OnThrow. `boxed`: the call's arguments if
// the frame wants_capture, else null.
Decision OnCall(ThreadState* state, CallFrame& frame);
void AfterEager(ThreadState* state, CallFrame& frame,
                const ResultList& results, torch::jit::Stack* boxed);
void OnThrow(ThreadState* state, CallFrame& frame);

// Around the eager kernel of a wrapped call.
class EagerScope {
 public:
  EagerScope(ThreadState* state, CallFrame& frame)
      : state_(state), frame_(frame) {
    ++t_context.inside;
  }
  ~EagerScope() {
    if (finished_) return;
    --t_context.inside;
    OnThrow(state_, frame_);
  }
  EagerScope(const EagerScope&) = delete;
  EagerScope& operator=(const EagerScope&) = delete;

  ResultList& results() { return results_; }
  void Finish() { Finish(nullptr); }
  void Finish(torch::jit::Stack boxed) { Finish(&boxed); }

 private:
  void Finish(torch::jit::Stack* boxed) {
    finished_ = true;
    --t_context.inside;
    AfterEager(state_, frame_, results_, boxed);
  }

  ThreadState* const state_;
  CallFrame& frame_;
  ResultList results_;
  bool finished_ = false;
};

}  // namespace tjit::runtime

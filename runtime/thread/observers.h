// Who watches ops: callbacks of at::RecordFunction, those of torch.profiler
// among them.
//
// Note [Observers]. An observer sees each op once, as eager libtorch shows it,
// although what is deferred runs later and otherwise:
//
// - the op itself is seen at its call, by libtorch's dispatcher (nothing goes
//   around that then: direct_calls.h);
// - what its eager kernel calls (mean: sum and div_) is learned where a step of
//   a trace first comes while somebody watches: that one runs at the call.
//   From then on the step is deferred, and these calls are shown at its call,
//   as they would take no time. Those who ask for inputs get the shapes of
//   tensors and no numbers (shape_tensor.h);
// - what is pending runs with observers off, in one span of the scope
//   USER_SCOPE, which those who count ops (FUNCTION) do not see:
//   "tjit: 76 ops addmm ... add_" (own_span.h). Its inputs are the shapes of
//   what it reads.
//
// What is pending runs before who watches changes: it belongs to the time
// before. A run that another thread has begun before a global observer came
// goes on as it was.
//
// Thread: any, about itself.
// Tested by: tests/runtime/thread/observers_test.cpp,
// tests/acceptance/python_test.py
#pragma once

#include <ATen/record_function.h>

#include <atomic>
#include <memory>

#include "runtime/call/inner_calls.h"

namespace tjit::runtime {

// Somebody watched ops in this process, now or before.
extern std::atomic<bool> g_was_watched;

// Somebody watches what this thread calls.
bool HasWatchers();
[[gnu::always_inline]] inline bool IsWatched() {
  return g_was_watched.load(std::memory_order_relaxed) && HasWatchers();
}

// Notes what is called on this thread from here on.
void BeginLearningCalls();
// What was called since; null if nobody asked.
std::unique_ptr<const InnerCalls> EndLearningCalls();

// Around a change of who watches: runs what this thread has pending, and goes
// on with its run as is right then.
void BeforeWatchersChange();
void AfterWatchersChange();

}  // namespace tjit::runtime

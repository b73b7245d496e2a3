// Engagement read from tjit's counters.
#include <tjit/jit.h>
#include <tjit/optim.h>
#include <tjit/tjit.h>

#include <memory>
#include <utility>

#include "bench/engagement.h"

namespace tjit::bench {
namespace {

tjit::Stats& Start() {
  static tjit::Stats start;
  return start;
}

bool wraps = false;

// What a std::function holds can be copied; a Jit cannot.
template <class F>
F WrappedIfAsked(F function) {
  if (!wraps) return function;
  auto wrapped = std::make_shared<tjit::Jit<F>>(std::move(function));
  return [wrapped](auto&&... arguments) {
    return (*wrapped)(std::forward<decltype(arguments)>(arguments)...);
  };
}

}  // namespace

bool IsLinked() { return true; }
bool IsEnabled() { return tjit::is_enabled(); }
void StartCounting() { Start() = tjit::stats(); }

Engagement Counted() {
  const tjit::Stats all = tjit::stats();
  const tjit::Stats did = all - Start();
  Engagement out;
  out.ops_seen = did.ops_seen;
  out.ops_deferred = did.ops_deferred;
  out.ops_replayed = did.ops_replayed;
  out.ops_drained = did.ops_drained;
  out.segments = did.segments;
  out.flushes = did.flush_count();
  out.steps_fused = did.steps_fused;
  out.steps_dead = did.steps_dead;
  out.sequences = all.sequences;
  out.function_replays = did.jit_replays;
  out.median_segment = did.median_segment_length();
  return out;
}

// tjit counts always.
void CountMemory() {}
void StartPeak() { tjit::reset_memory_peak(); }
std::int64_t PeakBytes() { return tjit::stats().memory_peak_bytes; }

void WrapFunctions() { wraps = true; }
bool WrapsFunctions() { return wraps; }
TensorFunction Wrapped(TensorFunction function) {
  return WrappedIfAsked(std::move(function));
}
TensorsFunction Wrapped(TensorsFunction function) {
  return WrappedIfAsked(std::move(function));
}
PlaceFunction Wrapped(PlaceFunction function) {
  return WrappedIfAsked(std::move(function));
}
NumbersFunction Wrapped(NumbersFunction function) {
  return WrappedIfAsked(std::move(function));
}
TrainingFunction Wrapped(TrainingFunction function) {
  return WrappedIfAsked(std::move(function));
}
BatchFunction Wrapped(BatchFunction function) {
  return WrappedIfAsked(std::move(function));
}

void Enable() { tjit::enable(); }
void Disable() { tjit::disable(); }
void MarkStep() { tjit::mark_step(); }
void Sync() { tjit::sync(); }

}  // namespace tjit::bench

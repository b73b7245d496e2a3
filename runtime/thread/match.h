// Compares a call with a recorded step, and binds storages to slots.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include "recorder/split_places.h"
#include "recorder/trace.h"
#include "runtime/call/call_frame.h"
#include "runtime/call/plain_tensor.h"
#include "runtime/call/trace_run.h"
#include "runtime/segment/compact_step.h"
#include "support/bail.h"
#include "support/policy.h"

namespace tjit::runtime {

// See SlotBinding::shift.
inline std::int64_t ShiftOf(const c10::TensorImpl* impl,
                            const TensorGeometry& g) {
  return (impl->storage_offset() - g.offset) *
         static_cast<std::int64_t>(g.itemsize);
}

// True if scalar `i` of the call may stand where another value was recorded.
bool MayBecome(const CallFrame& frame, std::uint32_t i,
               const ScalarRecord& recorded);

// Everything but the values and the tensors themselves.
[[gnu::always_inline]] inline bool HasKindOf(const CallFrame& frame,
                                             std::uint32_t context,
                                             const CompactStep& step) {
  return step.op() == frame.entry.id && step.context() == context &&
         step.arg_count() == frame.tensors.size() &&
         step.scalar_count() == frame.scalars.size() &&
         step.static_count() == frame.statics.size() && frame.recordable;
}

// REQUIRES: the call has as many as the step.
[[gnu::always_inline]] inline bool HasSameStatics(const CallFrame& frame,
                                                  const CompactStep& step) {
  const std::uint64_t* then = step.statics();
  for (const std::uint64_t now : frame.statics) {
    if (*then++ != now) return false;
  }
  return true;
}

// True if the scalars of the call may stand where those of the step do.
// REQUIRES: the call has as many as the step.
bool OthersMayBecome(const CallFrame& frame, const TraceNode& node,
                     const CompactStep& step);

// Everything of a step but which storages it uses: op, context, statics,
// scalars, geometry. No side effects.
bool MatchShape(const CallFrame& frame, std::uint32_t context,
                const StepRecord& step, BailReason* why);

// The same of the step of `node`, which is quicker once it has been deferred.
// `why` may be null: nobody asks.
bool MatchNode(const CallFrame& frame, std::uint32_t context,
               const TraceNode& node, BailReason* why);

// The step shape (recorder/step_shape.h) of a call.
std::uint64_t ShapeOf(const CallFrame& frame, std::uint32_t context);

// How the storage behind an argument may be used by a pending op.
enum class Access : std::uint8_t {
  kBlock,  // a block of ours
  kCopy,   // small exposed or foreign memory, only read: copied at the call
  kNo,     // must run at the call
};
// `block`: of the tensor's storage, if it has one.
Access AccessOf(const OpEntry& op, const Run& run, const c10::TensorImpl* impl,
                bool written, Block** block);

// Compares the storages of all arguments with the slots of the step. If all of
// them match, those that are new are bound, in order; else nothing changes.
// REQUIRES: `step.args` and `frame.tensors` have the same length.
bool BindSlots(const CallFrame& frame, const TraceNode& node, Run* run,
               BailReason* why);

// The slot that has the block in this run, or -1. Not one with a copy.
std::int32_t BoundSlot(const Run& run, const Block* block);

// True if the op writes to a storage that it uses over another slot, too: how
// they overlap is not recorded. `step`: the call in slots.
bool MeetsItself(const CallFrame& frame, const StepRecord& step);

// Takes the bindings from `count` on back (blocks keep a stale binding, which
// BoundSlot() recognises).
void UnbindFrom(Run* run, std::size_t count);

}  // namespace tjit::runtime

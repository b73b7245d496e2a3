// The fast path of deferring a step: its arguments are owned by pending ops and
// only read, its scalars are the recorded ones, and a recycled tensor serves
// its one result (CompactStep::is_fast()). Nearly all of a replayed program.
//
// IsFastCall() matches such a step; what defers it looks at nothing that it has
// proved, and whatever is out of the ordinary is left to OpDeferral::Defer()
// before anything has changed.
// Inline: a call more is as much as a fifth of it.
// Tested by: tests/runtime/memory/tensor_recycler_test.cpp,
// tests/runtime/replay_test.cpp
#pragma once

#include "runtime/memory/deferred_storage.h"
#include "runtime/memory/tensor_recycler.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/platform/thread_context.h"
#include "runtime/segment/compact_step.h"
#include "runtime/thread/thread_state.h"
#include "support/policy.h"

namespace tjit::runtime {

// Ops that may be pending. A function of tjit::jit() runs as a whole.
inline std::size_t MostPending() {
  if (ForcedDrainAt() >= 0) {
    return static_cast<std::size_t>(ForcedDrainAt()) + 1;
  }
  return t_context.in_function ? policy::kMaxTraceSteps + 1
                               : policy::kMaxPending;
}
inline bool HoldsTooMuch(const Run& run) {
  return run.held_bytes > policy::kMaxHeldBytes && !t_context.in_function;
}

[[gnu::always_inline]] inline void OpDeferral::AddPending(TraceNode* node) {
  run_.pending.push_back(node);
  const std::size_t count = run_.pending.size();
  pending_count_.store(static_cast<std::uint32_t>(count),
                       std::memory_order_relaxed);
  counters_.ops_deferred.Add();
  if (count >= pending_limit_ || run_.held_bytes > policy::kMaxHeldBytes)
      [[unlikely]]
    RunFullQueue();
}

// A block of the run's own that pending ops fill. REQUIRES: `s` is the number
// of slots so far.
[[gnu::always_inline]] inline void OpDeferral::OwnNew(Block* block,
                                                       std::uint32_t s) {
  SlotBinding& slot = run_.slots.emplace_back();
  slot.block = block;
  slot.owned = true;
  slot.born_pending = true;
  run_.owned.push_back(s);
  block->binding.store(run_.BindingOf(s), std::memory_order_relaxed);
  block->pending.store(Block::kPendingWrite, std::memory_order_relaxed);
  block->owner.store(this, std::memory_order_release);
}

// True if pending ops own the argument, which no step has touched in between,
// in the slot of the step, and its storage is armed. What they own is not
// given out again, so that its address tells it.
[[gnu::always_inline]] inline bool OpDeferral::IsFastArgument(
    const c10::TensorImpl* impl, const CompactArg& arg,
    const SlotBinding& slot) {
  const TensorTemplate::Bytes* form =
      arg.form->bytes.load(std::memory_order_acquire);
  if (impl == nullptr || form == nullptr || !HasShapeOf(impl, *form)) {
    return false;
  }
  const c10::StorageImpl* const storage =
      impl->unsafe_storage().unsafeGetStorageImpl();
  const Block* const block = slot.block;
  if (storage == nullptr || block == nullptr || !slot.is_owned_only() ||
      slot.shift != 0 || !storage->has_materializer() ||
      block->exposed.load(std::memory_order_relaxed) ||
      block->pending.load(std::memory_order_relaxed) == 0) {
    return false;
  }
  const c10::DataPtr& p =
      const_cast<c10::StorageImpl*>(storage)->_mutable_data_ptr_no_checks();
  return p.get() == block->data && p.get_context() == block->data;
}

// REQUIRES: the step is_fast(), and the call is it in op, context and counts.
// True if the call is it in all, and pending ops own its arguments: nothing
// is left to be noted of these then.
[[gnu::always_inline]] inline bool OpDeferral::IsFastCall(
    const CallFrame& frame, const TraceNode& node,
    const CompactStep& step) const {
  if (run_.slots.size() != node.slot_begin) return false;
  const ScalarValue* scalar = step.scalars();
  for (const ScalarValue& now : frame.scalars) {
    if (!now.SameBits(*scalar++)) return false;
  }
  const std::uint64_t* word = step.statics();
  for (const std::uint64_t now : frame.statics) {
    if (*word++ != now) return false;
  }
  const SlotBinding* const slots = run_.slots.data();
  const TensorRef* ref = frame.tensors.begin();
  const CompactArg* const end = step.args() + step.arg_count();
  for (const CompactArg* arg = step.args(); arg != end; ++arg, ++ref) {
    if (!IsFastArgument(ref->impl, *arg,
                        slots[static_cast<std::uint32_t>(arg->slot)])) {
      return false;
    }
  }
  return true;
}

// REQUIRES: mutex_ held, IsFastCall(). False, and nothing has changed, if a
// result must be made.
[[gnu::always_inline]] inline bool OpDeferral::DeferFast(
    CallFrame& frame, TraceNode* node, const CompactStep& step) {
  const CompactResult& result = *step.results();
  const TensorTemplate::Bytes* form =
      result.form->bytes.load(std::memory_order_acquire);
  ScalarValue* to = run_.scalars.data() + node->scalar_begin;
  const ScalarValue* const to_end = to + step.scalar_count();
  if (form == nullptr || !pending_is_plain_ ||
      (TensorRecycler::IsOfSlots(result.size_class) && !node->Dies(0)) ||
      to_end > run_.scalars.data() + run_.scalars.size()) [[unlikely]] {
    return false;
  }
  Block* block = nullptr;
  PooledTensor* const tensor =
      TensorRecycler::Acquire(result.size_class, result.bytes, *form,
                              result.version, &MaterializeHook, &block);
  if (tensor == nullptr) [[unlikely]]
    return false;
  c10::TensorImpl* const undefined = c10::UndefinedTensorImpl::singleton();
  if (tensor == undefined) __builtin_unreachable();  // or it would be asked
  frame.results.AddOwned(
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::
          unsafe_steal_from_new(tensor)
              .release());
  run_deferred_ = true;
  at_boundary_ = false;
  const ScalarValue* from = step.scalars();
  while (to != to_end) *to++ = *from++;
  OwnNew(block, node->slot_begin);
  AddPending(node);
  return true;
}

}  // namespace tjit::runtime

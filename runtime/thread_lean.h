// The lean way to defer a step: its arguments are owned by pending ops and
// only read, its scalars are the recorded ones, and a parked tensor serves its
// one result (CompactStep::is_lean()). Nearly all of a replayed program.
//
// Nothing here looks at what the match has just proved, and whatever is out of
// the ordinary is left to ThreadState::Defer() before anything has changed.
// Inline: a call more is as much as a fifth of it.
// Tested by: tests/runtime/parked_tensor_test.cpp,
// tests/runtime/replay_test.cpp
#pragma once

#include "runtime/compact_step.h"
#include "runtime/deferred_storage.h"
#include "runtime/parked_tensor.h"
#include "runtime/thread_state.h"

namespace tjit::runtime {

[[gnu::always_inline]] inline void ThreadState::AddPending(TraceNode* node) {
  run_.pending.push_back(node);
  const std::size_t count = run_.pending.size();
  pending_count_.store(static_cast<std::uint32_t>(count),
                       std::memory_order_relaxed);
  counters_.ops_deferred.Add();
  if (count >= pending_limit_ || run_.held_bytes > kMaxHeldBytes) [[unlikely]]
    RunFullQueue();
}

// A block of the run's own that pending ops fill.
[[gnu::always_inline]] inline void ThreadState::OwnNew(Block* block) {
  const auto s = static_cast<std::uint32_t>(run_.slots.size());
  SlotBinding& slot = run_.slots.emplace_back();
  slot.block = block;
  slot.owned = true;
  slot.born_pending = true;
  run_.owned.push_back(s);
  block->binding.store(run_.BindingOf(s), std::memory_order_relaxed);
  block->pending.store(Block::kPendingWrite, std::memory_order_relaxed);
  block->owner.store(this, std::memory_order_release);
}

[[gnu::always_inline]] inline void ThreadState::ReadOwned(
    const CallFrame& frame, const CompactStep& step) {
  const TensorRef* ref = frame.tensors.begin();
  const CompactArg* const end = step.args() + step.arg_count();
  for (const CompactArg* arg = step.args(); arg != end; ++arg, ++ref) {
    Block* const block = run_.slots[static_cast<std::size_t>(arg->slot)].block;
    block->pending.store(
        block->pending.load(std::memory_order_relaxed) | Block::kPendingRead,
        std::memory_order_relaxed);
    c10::StorageImpl* const storage =
        ref->impl->unsafe_storage().unsafeGetStorageImpl();
    if (!storage->has_materializer()) [[unlikely]]
      storage->set_materializer(&MaterializeHook);
  }
}

// REQUIRES: mutex_ held, the call is `step` in all, and pending ops own its
// arguments. False, and nothing has changed, if a result must be made.
[[gnu::always_inline]] inline bool ThreadState::DeferLean(
    CallFrame& frame, TraceNode* node, const CompactStep& step) {
  const CompactResult& result = *step.results();
  const TensorForm::Bytes* form =
      result.form->bytes.load(std::memory_order_acquire);
  ScalarValue* to = run_.scalars.data() + node->scalar_begin;
  const ScalarValue* const to_end = to + step.scalar_count();
  if (form == nullptr || !pending_is_plain_ || run_.pending.empty() ||
      to_end > run_.scalars.data() + run_.scalars.size()) [[unlikely]] {
    return false;
  }
  Block* block = nullptr;
  PooledTensor* const tensor =
      ParkedTensor::Take(result.size_class, result.bytes, *form, result.version,
                         &MaterializeHook, &block);
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
  ReadOwned(frame, step);
  OwnNew(block);
  AddPending(node);
  return true;
}

}  // namespace tjit::runtime

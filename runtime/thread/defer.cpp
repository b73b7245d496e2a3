// The half of ThreadState that defers an op: its arguments are kept as they
// are, its results exist without bytes. All of it runs under mutex_.
#include <c10/core/TensorImpl.h>

#include "runtime/memory/object_pool.h"
#include "runtime/memory/reserved_block.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/thread/fast_defer.h"
#include "runtime/thread/match.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/thread/thread_state.h"

namespace tjit::runtime {
namespace {

// As at::empty() makes it: no block, nothing to wait for.
at::Tensor MakeEmpty(const CompactResult& result) {
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(0),
      BlockAllocator()->allocate(0), BlockAllocator(), /*resizable=*/true);
  return MakeTensor(*result.form, c10::Storage(std::move(storage)),
                    result.version);
}

void RecordPendingUse(Block* block, std::uint8_t use) {
  const std::uint8_t now = block->pending.load(std::memory_order_relaxed);
  block->pending.store(now | use, std::memory_order_relaxed);
}

// True if neither a pending step nor this one, whose first argument it is,
// needs what is in the memory of the slot.
inline bool BeginsAnew(const CompactStep& step, const SlotBinding& slot) {
  return step.filled_bytes() != 0 &&
         step.filled_bytes() == slot.block->bytes && !slot.reader &&
         slot.shift == 0 &&
         slot.block->pending.load(std::memory_order_relaxed) == 0;
}

}  // namespace

// One that the program dropped before, or undefined.
[[gnu::always_inline]] inline at::Tensor OpDeferral::AcquireRecycled(
    const CompactResult& result, bool dies, Block** block) {
  const TensorTemplate::Bytes* form =
      result.form->bytes.load(std::memory_order_acquire);
  if (result.size_class == TensorRecycler::kNone || form == nullptr ||
      !pending_is_plain_ ||
      (TensorRecycler::IsOfSlots(result.size_class) && !dies)) {
    return {};
  }
  c10::TensorImpl* impl =
      TensorRecycler::Acquire(result.size_class, result.bytes, *form,
                              result.version, &MaterializeHook, block);
  if (impl == nullptr) return {};
  return at::Tensor(
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::
          unsafe_steal_from_new(impl));
}

[[gnu::noinline]] at::Tensor OpDeferral::MakeAnew(const CompactResult& result,
                                                   bool dies, Block** made) {
  const bool quiet = !pending_reports_;
  const std::uint64_t bytes = result.bytes;
  Block* block = dies && MayFault(bytes) ? AllocateDyingBlock(bytes, quiet)
                                         : AllocateBlock(bytes, quiet);
  *made = block;
  auto storage = c10::make_intrusive<PooledStorage>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(bytes),
      c10::DataPtr(block->data, block->data, &ReleaseBlock,
                   c10::Device(c10::kCPU)),
      BlockAllocator(), /*resizable=*/true);
  storage->set_materializer(&MaterializeHook);
  return MakeTensor(*result.form, c10::Storage(std::move(storage)),
                    result.version);
}

at::Tensor OpDeferral::MakeSurvivor(const CompactResult& result,
                                    std::uint32_t context, Block** block) {
  at::Tensor t = AcquireRecycled(result, /*dies=*/false, block);
  if (*block != nullptr) return t;
  ContextScope scope;  // inference tensors are made in inference mode
  scope.Switch(context);
  return MakeAnew(result, /*dies=*/false, block);
}

[[gnu::always_inline]] inline at::Tensor OpDeferral::MakeDeferred(
    const CompactResult& result, bool dies) {
  Block* block = nullptr;
  at::Tensor t = AcquireRecycled(result, dies, &block);
  if (block == nullptr) [[unlikely]]
    t = MakeAnew(result, dies, &block);
  OwnNew(block, static_cast<std::uint32_t>(run_.slots.size()));
  return t;
}

[[gnu::always_inline]] inline void OpDeferral::MakeResults(
    CallFrame& frame, const TraceNode* node, const CompactStep& step) {
  const CompactResult* result = step.results();
  for (std::uint32_t i = 0; i < step.result_count(); ++i, ++result) {
    if (result->kind == ResultRecord::Kind::kAlias) continue;
    if (result->kind == ResultRecord::Kind::kUndefined) {
      frame.results.Add(at::Tensor());
      continue;
    }
    if (result->kind == ResultRecord::Kind::kEmpty) {
      frame.results.Add(MakeEmpty(*result));
      continue;
    }
    frame.results.Add(MakeDeferred(*result, node->Dies(i)));
  }
}

// The op's place goes, and what it alone claimed; the rest at the next flush.
void OpDeferral::UndoDefer(CallFrame& frame, const TraceNode* node) {
  for (std::size_t s = node->slot_begin; s < run_.slots.size(); ++s) {
    const SlotBinding& slot = run_.slots[s];
    if (!slot.owned) continue;
    slot.block->pending.store(0, std::memory_order_relaxed);
    slot.block->owner.store(nullptr, std::memory_order_release);
  }
  std::erase_if(run_.owned,
                [node](std::uint32_t s) { return s >= node->slot_begin; });
  std::erase_if(run_.readers, [&](std::uint32_t s) {
    if (s < node->slot_begin) return false;
    run_.slots[s].reader = false;
    // The program still owns it: it is an argument of the call.
    static_cast<void>(run_.slots[s].block->DropReader());
    return true;
  });
  // What the op would have filled is not, so it is the program's as it stands.
  for (const ArgRecord& arg : node->step.args) {
    if (arg.written && arg.slot != kNoSlot) {
      run_.slots[static_cast<std::size_t>(arg.slot)].born_pending = false;
    }
  }
  frame.results.clear();
  UnbindFrom(&run_, node->slot_begin);
  cursor_ = node->parent;
  if (run_.pending.empty()) AfterFlushLocked();
}

void OpDeferral::BeginPending() {
  run_deferred_ = true;
  at_boundary_ = false;
  if (run_.pending.empty()) BeginSegment();
}

[[gnu::noinline]] void OpDeferral::BeginSegment() {
  run_.has_other_scalars = false;
  pending_global_ = GlobalContext::Now();
  pending_reports_ = ReportsAllocations();
  pending_is_plain_ = !pending_reports_ && !FillsAllocations();
  pending_limit_ = MostPending();
  g_settings.CountPending(true);
}

// Those of steps that ran eagerly are whatever was there.
inline void OpDeferral::KeepScalars(const CallFrame& frame,
                                     const TraceNode* node,
                                     const CompactStep& step) {
  if (step.scalar_count() == 0) return;
  const std::size_t end = node->scalar_begin + step.scalar_count();
  if (run_.scalars.size() < end) [[unlikely]] {
    run_.scalars.resize(2 * end);
  }
  const ScalarValue* value =
      Planted(Defect::kStaleScalar) ? step.scalars() : frame.scalars.data();
  ScalarValue* to = run_.scalars.data() + node->scalar_begin;
  ScalarValue* const to_end = run_.scalars.data() + end;
  for (const ScalarValue* then = step.scalars(); to != to_end; ++then) {
    if (!value->SameBits(*then)) run_.has_other_scalars = true;
    *to++ = *value++;
  }
}

inline void OpDeferral::UseSlot(const CompactStep& step, const CompactArg& arg,
                                 SlotBinding* slot) {
  std::uint8_t use = Block::kPendingRead;
  if (arg.written) [[unlikely]] {
    // Eager copies keep what was there.
    if (&arg == step.args() && modes_ == nullptr && BeginsAnew(step, *slot)) {
      slot->born_pending = true;
    }
    use |= Block::kPendingWrite;
    if (!Planted(Defect::kStaleVerdict)) slot->block->ForgetContent();
  }
  RecordPendingUse(slot->block, use);
}

// REQUIRES: pending ops own all arguments.
inline void OpDeferral::UseOwnedArguments(const CallFrame& frame,
                                           const CompactStep& step) {
  const TensorRef* ref = frame.tensors.begin();
  const CompactArg* const end = step.args() + step.arg_count();
  for (const CompactArg* arg = step.args(); arg != end; ++arg, ++ref) {
    if (arg->slot == kNoSlot) continue;
    SlotBinding& slot = run_.slots[static_cast<std::size_t>(arg->slot)];
    UseSlot(step, *arg, &slot);
    ArmStorage(ref->impl->unsafe_storage().unsafeGetStorageImpl(), slot.block);
  }
}

void OpDeferral::OwnArguments(const CallFrame& frame, const TraceNode* node,
                               const CompactStep& step) {
  KeepScalars(frame, node, step);
  // Slots are numbered by first use: from here on they are new.
  auto next_slot = static_cast<std::int32_t>(node->slot_begin);
  const TensorRef* ref = frame.tensors.begin();
  const CompactArg* const end = step.args() + step.arg_count();
  for (const CompactArg* arg = step.args(); arg != end; ++arg, ++ref) {
    if (arg->slot == kNoSlot) continue;
    SlotBinding& slot = run_.slots[static_cast<std::size_t>(arg->slot)];
    if (slot.copied) {
      if (arg->slot >= next_slot) {
        counters_.inputs_copied.Add();
        next_slot = arg->slot + 1;
      }
      continue;
    }
    if (slot.block == nullptr) continue;
    if (slot.owned) UseSlot(step, *arg, &slot);  // readers are only counted
    ArmStorage(ref->impl->unsafe_storage().unsafeGetStorageImpl(), slot.block);
  }
}

// Without memory they stay pending; the next sync point says so.
[[gnu::noinline]] void OpDeferral::RunFullQueue() {
  if (ForcedDrainAt() >= 0 &&
      static_cast<std::int64_t>(run_.pending.size()) > ForcedDrainAt()) {
    static_cast<void>(DrainPending());
  } else if (run_.pending.size() >= pending_limit_) {
    static_cast<void>(RunPending(FlushReason::kQueueFull));
  } else if (HoldsTooMuch(run_)) {
    static_cast<void>(RunPending(FlushReason::kHeldMemory));
  }
}

// One call deep: every op of a replayed program comes through here.
[[gnu::hot]] bool OpDeferral::Defer(CallFrame& frame, TraceNode* node,
                                     const CompactStep* made,
                                     bool owns_arguments) {
  BeginPending();
  try {
    if (made == nullptr) [[unlikely]] {
      made = CompactStep::Make(node, !frame.entry.may_throw_on_values);
    }
    const CompactStep& step = *made;
    if (owns_arguments) [[likely]] {
      KeepScalars(frame, node, step);
      UseOwnedArguments(frame, step);
    } else {
      OwnArguments(frame, node, step);
    }
    MakeResults(frame, node, step);
  } catch (const std::exception&) {
    UndoDefer(frame, node);
    return false;
  }
  AddPending(node);
  return true;
}

}  // namespace tjit::runtime

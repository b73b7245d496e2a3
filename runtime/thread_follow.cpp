// The half of ThreadState that follows a trace: finds the step that a call
// is, claims what it needs and hands it to Defer().
//
// Every op of a replayed program comes through here, so what is usual stands
// first: the likely child, arguments that are bound and owned already.
#include "runtime/compact_step.h"
#include "runtime/find_root.h"
#include "runtime/interpose.h"
#include "runtime/log.h"
#include "runtime/match.h"
#include "runtime/mode_state.h"
#include "runtime/runtime.h"
#include "runtime/testing_hooks.h"
#include "runtime/thread_state.h"
#include "runtime/value_checks.h"

namespace tjit::runtime {

TraceNode* ThreadState::FindChild(TraceNode* from, CallFrame& frame,
                                  BailReason* why) {
  TraceNode* likely = from->likely.load(std::memory_order_relaxed);
  const auto matches = [&](TraceNode* n) {
    if (!MatchShape(frame, context_, n->step, why)) return false;
    if (n->step.kind == StepKind::kAtCall) return true;
    if (frame.entry.may_throw_on_values && !ValuesPassWhenReady(frame) &&
        !Planted(Defect::kLateError)) {
      *why = BailReason::kValuesUnchecked;
      return false;
    }
    return BindSlots(frame, *n, &run_, why);
  };
  if (from == store_->top()) {
    if (matches(root_)) return root_;
    const BailReason first_why = *why;
    TraceNode* other =
        FindRoot(frame, [&](TraceNode* n) { return n != root_ && matches(n); });
    if (other == nullptr) *why = first_why;
    return other;
  }
  if (likely != nullptr && matches(likely)) return likely;
  const BailReason first_why = *why;
  for (TraceNode* n = from->first_child.load(std::memory_order_acquire);
       n != nullptr; n = n->next_sibling.load(std::memory_order_acquire)) {
    if (n != likely && matches(n)) return n;
  }
  if (likely != nullptr) *why = first_why;
  return nullptr;
}

bool ThreadState::ValuesPassWhenReady(const CallFrame& frame) {
  if (ValuesPass(frame)) return true;
  if (run_.pending.empty()) return false;
  // The operand that decides may be pending itself.
  FlushLocked(FlushReason::kValueCheck);
  return ValuesPass(frame);
}

bool ThreadState::ClaimSlots(const StepRecord& step) {
  const std::size_t owned_before = run_.owned.size();
  const std::size_t readers_before = run_.readers.size();
  for (const ArgRecord& arg : step.args) {
    if (arg.slot == kNoSlot) continue;
    const auto s = static_cast<std::uint32_t>(arg.slot);
    const SlotBinding& slot = run_.slots[s];
    if (slot.copied || (slot.owned && !arg.written)) continue;
    if (arg.written ? ClaimToWrite(s) : ClaimToRead(s)) continue;
    while (run_.owned.size() > owned_before) {
      SlotBinding& claimed = run_.slots[run_.owned.back()];
      claimed.owned = false;
      claimed.block->owner.store(nullptr, std::memory_order_release);
      run_.owned.pop_back();
    }
    while (run_.readers.size() > readers_before) {
      SlotBinding& read = run_.slots[run_.readers.back()];
      read.reader = false;
      // The program still owns it: it is an argument of the call.
      static_cast<void>(read.block->DropReader());
      run_.readers.pop_back();
    }
    return false;
  }
  return true;
}

// Note [Shared readers] in block.h: own first, then look at the readers.
bool ThreadState::ClaimToWrite(std::uint32_t s) {
  SlotBinding& slot = run_.slots[s];
  if (!slot.owned) {
    ThreadState* none = nullptr;
    if (!slot.block->owner.compare_exchange_strong(none, this,
                                                   std::memory_order_seq_cst)) {
      return false;
    }
    slot.owned = true;
    run_.owned.push_back(s);
  }
  const std::uint32_t mine = slot.reader ? 1 : 0;
  return slot.block->shared_use.load(std::memory_order_seq_cst) == mine;
}

bool ThreadState::ClaimToRead(std::uint32_t s) {
  SlotBinding& slot = run_.slots[s];
  if (slot.owned || slot.reader) return true;
  Block* block = slot.block;
  if (block->is_shared()) {
    block->AddReader();
    slot.reader = true;
    run_.readers.push_back(s);
    const ThreadState* owner = block->owner.load(std::memory_order_seq_cst);
    return owner == nullptr || owner == this;
  }
  ThreadState* none = nullptr;
  if (!block->owner.compare_exchange_strong(none, this,
                                            std::memory_order_seq_cst)) {
    if ((block->pending.load(std::memory_order_relaxed) &
         Block::kPendingWrite) == 0) {
      block->NoteSwitch();
    }
    return false;
  }
  slot.owned = true;
  run_.owned.push_back(s);
  return true;
}

void ThreadState::FlushForeignOwners(const CallFrame& frame) {
  for (const TensorRef& ref : frame.tensors) {
    if (ref.impl == nullptr) continue;
    const c10::StorageImpl* storage = StorageOf(ref.impl);
    if (storage == nullptr) continue;
    Block* block = BlockOf(storage);
    if (block == nullptr) continue;
    ThreadState* owner = block->owner.load(std::memory_order_acquire);
    if (owner != nullptr && owner != this) {
      owner->Flush(FlushReason::kOtherThread);
    }
    if (ref.written) FlushReaders(block, FlushReason::kOtherThread);
  }
}

// Who reads a shared block is not known, only how many.
void ThreadState::FlushReaders(const Block* block, FlushReason reason) {
  if (!block->has_readers()) return;
  Flush(reason);
  if (block->has_readers()) runtime_->FlushAll(FlushReason::kOtherThread);
}

bool ThreadState::TryFollow(CallFrame& frame, Decision* decision) {
  BailReason why = BailReason::kOpDiffers;
  TraceNode* node = nullptr;
  for (;;) {
    StateLock lock(this);
    const std::size_t slots_before = run_.slots.size();
    node = FindChild(cursor_, frame, &why);
    if (node == nullptr) break;
    const bool defers = node->hot.load(std::memory_order_relaxed) &&
                        node->step.kind == StepKind::kDeferred &&
                        runtime_->may_defer();
    if (defers && !ClaimSlots(node->step)) {
      UnbindFrom(&run_, slots_before);
      lock.Unlock();
      FlushForeignOwners(frame);
      continue;
    }
    *decision = Take(frame, node, defers);
    if (*decision == Decision::kDeferred) return true;
    if (modes_ != nullptr && modes_->shadowed != nullptr) {
      OpenShadow(std::move(lock));
      return true;
    }
    break;
  }
  if (node != nullptr) {
    MakeReady(frame);
    return true;
  }
  if (cursor_->parent != nullptr &&
      cursor_->ends.load(std::memory_order_acquire) != nullptr) {
    FinishRun(FlushReason::kSegmentEnd);
  } else {
    LeaveTrace(why);
  }
  return false;
}

namespace {

// In a trace of thousands of steps the next one has left the cache since the
// last run. The pipeline is two steps long: what the next one reads, and the
// node after that.
void PrefetchAfter(const TraceNode* node) {
  constexpr std::size_t kLine = 64;
  const TraceNode* next = node->likely.load(std::memory_order_relaxed);
  if (next == nullptr) return;
  if (const CompactStep* step = CompactStep::Of(*next)) {
    const auto* p = reinterpret_cast<const char*>(step);
    __builtin_prefetch(p);
    __builtin_prefetch(p + kLine);
    __builtin_prefetch(p + 2 * kLine);
  }
  if (const TraceNode* later = next->likely.load(std::memory_order_relaxed)) {
    __builtin_prefetch(later);
  }
}

// Shorter traces stay in the cache.
constexpr std::uint32_t kPrefetchFrom = 256;

}  // namespace

inline void ThreadState::MoveCursor(TraceNode* node) {
  if (cursor_ != store_->top()) {
    if (cursor_->likely.load(std::memory_order_relaxed) != node) {
      cursor_->likely.store(node, std::memory_order_relaxed);
    }
  }
  cursor_ = node;
}

[[gnu::always_inline]] inline Decision ThreadState::TakeDeferred(
    CallFrame& frame, TraceNode* node) {
  if (node->depth >= kPrefetchFrom) PrefetchAfter(node);
  if (Defer(frame, node)) [[likely]]
    return Decision::kDeferred;
  // Its memory cannot be had: what is pending may free some, and the eager
  // kernel succeeds then or throws what it throws without us.
  CountEager(frame);
  FlushLocked(FlushReason::kHeldMemory);
  LeaveTraceLocked(BailReason::kOutOfMemory);
  return Decision::kEager;
}

Decision ThreadState::Take(CallFrame& frame, TraceNode* node, bool defers) {
  MoveCursor(node);
  if (defers) {
    if (modes_ != nullptr && (modes_->modes & kModeShadow) != 0) [[unlikely]] {
      modes_->shadowed = node;
      return Decision::kEager;
    }
    return TakeDeferred(frame, node);
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

namespace {

// True if the storage owns this block, which lives. Its address is nobody
// else's, but the program may have made a DataPtr of it that owns nothing.
inline bool Holds(const c10::StorageImpl* storage, const Block* block) {
  if (storage == nullptr) return false;
  const c10::DataPtr& p =
      const_cast<c10::StorageImpl*>(storage)->_mutable_data_ptr_no_checks();
  return p.get() == block->data && p.get_context() == block->data;
}

}  // namespace

// True if pending ops own the argument already, in the slot of the step. What
// they own is not given out again, so that its address tells it.
[[gnu::always_inline]] inline bool ThreadState::IsOwned(
    const c10::TensorImpl* impl, const CompactArg& arg,
    std::int64_t shift) const {
  const auto s = static_cast<std::uint32_t>(arg.slot);
  if (s >= run_.slots.size()) return false;
  const SlotBinding& slot = run_.slots[s];
  const Block* block = slot.block;
  return slot.owned && !slot.copied && !slot.held && block != nullptr &&
         !block->exposed.load(std::memory_order_relaxed) &&
         Holds(impl->unsafe_storage().unsafeGetStorageImpl(), block) &&
         shift == slot.shift &&
         (!arg.written || block->shared_use.load(std::memory_order_seq_cst) ==
                              (slot.reader ? 1u : 0u));
}

// True if the call is the step but for the storages it uses; `is_owned`: for
// these too, and pending ops own them.
[[gnu::always_inline]] inline bool ThreadState::IsUsual(const CallFrame& frame,
                                                        const TraceNode& node,
                                                        const CompactStep& step,
                                                        bool* is_owned) const {
  if (step.op() != frame.entry.id || step.context() != context_ ||
      step.arg_count() != frame.tensors.size() ||
      step.scalar_count() != frame.scalars.size() ||
      step.static_count() != frame.statics.size() || !frame.recordable) {
    return false;
  }
  const CompactArg* const end = step.args() + step.arg_count();
  const ScalarValue* scalar = step.scalars();
  for (std::uint32_t i = 0; i < step.scalar_count(); ++i, ++scalar) {
    if (!scalar->SameBits(frame.scalars[i]) &&
        !MayBecome(frame, i, node.step.scalars[i])) {
      return false;
    }
  }
  // The scalars end where the statics begin.
  const auto* word = reinterpret_cast<const std::uint64_t*>(scalar);
  for (std::uint32_t i = 0; i < step.static_count(); ++i, ++word) {
    if (*word != frame.statics[i]) return false;
  }
  bool owned = true;
  const TensorRef* ref = frame.tensors.begin();
  for (const CompactArg* arg = step.args(); arg != end; ++arg) {
    const c10::TensorImpl* impl = (ref++)->impl;
    const TensorForm* form = arg->form;
    if (impl == nullptr || form == nullptr) {
      if (impl != nullptr || form != nullptr) return false;
      continue;
    }
    std::int64_t shift = 0;  // forms with bytes begin at offset 0
    if (!HasBytesOf(impl, *form)) [[unlikely]] {
      if (!SameGeometry(impl, form->geometry)) return false;
      shift = ShiftOf(impl, form->geometry);
    }
    owned = owned && IsOwned(impl, *arg, shift);
  }
  *is_owned = owned;
  return true;
}

// REQUIRES: mutex_ held. False, and nothing has changed, if it cannot be.
bool ThreadState::BindAndClaim(const CallFrame& frame, const TraceNode& node) {
  const std::size_t slots_before = run_.slots.size();
  BailReason why = BailReason::kOpDiffers;
  if (!BindSlots(frame, node, &run_, &why)) return false;
  if (ClaimSlots(node.step)) return true;
  UnbindFrom(&run_, slots_before);
  return false;
}

bool ThreadState::FollowUsual(CallFrame& frame, Decision* decision) {
  TraceNode* node = cursor_->likely.load(std::memory_order_relaxed);
  if (node == nullptr || !node->hot.load(std::memory_order_relaxed) ||
      modes_ != nullptr || capture_.active() || !runtime_->may_defer() ||
      (!run_deferred_ && capture_is_due())) {
    return false;
  }
  const CompactStep* step = CompactStep::Of(*node);
  if (step == nullptr || !step->follows_usually()) return false;
  StateLock lock(this, /*is_owner=*/true);
  bool is_owned = false;
  if (!IsUsual(frame, *node, *step, &is_owned)) return false;
  if (!is_owned && !BindAndClaim(frame, *node)) return false;
  cursor_ = node;
  *decision = TakeDeferred(frame, node);
  if (*decision == Decision::kDeferred) return true;
  lock.Unlock();
  MakeReady(frame);
  return true;
}

bool ThreadState::EnterUsual(CallFrame& frame, Decision* decision) {
  TraceNode* root = root_;
  if (root == nullptr || !root->hot.load(std::memory_order_relaxed) ||
      modes_ != nullptr || !runtime_->may_defer() ||
      runtime_->debug_compile()) {
    return false;
  }
  const CompactStep* step = CompactStep::Of(*root);
  if (step == nullptr || !step->follows_usually()) return false;
  Trace* trace = root->owner.load(std::memory_order_acquire);
  if (trace == nullptr || (trace->starts_at_boundary && !at_boundary_) ||
      trace->skip.load(std::memory_order_relaxed) > 0) {
    return false;
  }
  bool is_owned = false;
  if (!IsUsual(frame, *root, *step, &is_owned)) return false;
  const std::int64_t entry = trace->entries.load(std::memory_order_relaxed);
  if (Trace::IsMeasured(entry)) return false;  // TryEnter() looks at the clock
  StateLock lock(this, /*is_owner=*/true);
  BeginRun();
  if (!BindAndClaim(frame, *root)) return false;
  trace->entries.fetch_add(1, std::memory_order_relaxed);
  run_began_ns_ = 0;
  cursor_ = root;
  *decision = TakeDeferred(frame, root);
  if (*decision == Decision::kDeferred) return true;
  lock.Unlock();
  MakeReady(frame);
  return true;
}

}  // namespace tjit::runtime

// Where every op comes in (OnCall), and the usual way of an op in a replayed
// program: it is the likely next step of a hot trace, and pending ops own its
// arguments already. Every op comes through here, so it is one pass over the
// arguments, one lock and one call.
#include "runtime/call/interpose.h"
#include "runtime/platform/settings.h"
#include "runtime/report/asked_sequences.h"
#include "runtime/report/instruction_log.h"
#include "runtime/segment/compact_step.h"
#include "runtime/thread/fast_defer.h"
#include "runtime/thread/match.h"
#include "runtime/thread/observers.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/thread/thread_state.h"

namespace tjit::runtime {
namespace {

// In a long trace, or one of many sizes, the next step has left the cache since
// its last run. The pipeline is two steps long: what the next one reads, and
// the node after that.
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

}  // namespace

[[gnu::noinline]] Decision TraceCursor::AdvanceDeferring(
    CallFrame& frame, TraceNode* node, const CompactStep* step,
    bool owns_arguments) {
  if (Defer(frame, node, step, owns_arguments)) [[likely]]
    return Decision::kDeferred;
  return HaveNoMemory(frame);
}

[[gnu::noinline]] Decision TraceCursor::HaveNoMemory(const CallFrame& frame) {
  // Its memory cannot be had: what is pending may free some, and the eager
  // kernel succeeds then or throws what it throws without us.
  CountEager(frame);
  FlushLocked(FlushReason::kHeldMemory);
  LeaveTraceLocked(BailReason::kOutOfMemory);
  return Decision::kEager;
}

Decision TraceCursor::AdvanceDeferred(CallFrame& frame, TraceNode* node) {
  PrefetchAfter(node);
  return AdvanceDeferring(frame, node, CompactStep::Of(*node),
                          /*owns_arguments=*/false);
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

// REQUIRES: the call has as many as the step.
[[gnu::always_inline]] inline bool HasSameScalars(const CallFrame& frame,
                                                  const CompactStep& step) {
  const ScalarValue* then = step.scalars();
  for (const ScalarValue& now : frame.scalars) {
    if (!now.SameBits(*then++)) return false;
  }
  return true;
}

// The same as HasBytesOf() for those it does not know, and where they begin.
[[gnu::noinline]] bool HasGeometryOf(const c10::TensorImpl* impl,
                                     const TensorTemplate& form,
                                     std::int64_t* shift) {
  if (!SameGeometry(impl, form.geometry)) return false;
  *shift = ShiftOf(impl, form.geometry);
  return true;
}

}  // namespace

// True if pending ops own the argument already, in the slot of the step. What
// they own is not given out again, so that its address tells it.
[[gnu::always_inline]] inline bool TraceCursor::IsOwned(
    const c10::TensorImpl* impl, const CompactArg& arg,
    std::int64_t shift) const {
  const auto s = static_cast<std::uint32_t>(arg.slot);
  if (s >= run_.slots.size()) return false;
  const SlotBinding& slot = run_.slots[s];
  const Block* block = slot.block;
  return block != nullptr && slot.is_owned_only() &&
         !block->exposed.load(std::memory_order_relaxed) &&
         Holds(impl->unsafe_storage().unsafeGetStorageImpl(), block) &&
         shift == slot.shift &&
         (!arg.written || block->shared_use.load(std::memory_order_seq_cst) ==
                              (slot.reader ? 1u : 0u));
}

// How far a call is the likely next step, which has its op and as many of all.
enum class Likeness : std::uint8_t {
  kNone,
  kSame,   // but for the storages that it uses
  kOwned,  // for these too, and pending ops own them
};

[[gnu::noinline]] Likeness TraceCursor::LikenessTo(
    const CallFrame& frame, const TraceNode& node,
    const CompactStep& step) const {
  Likeness likeness = Likeness::kOwned;
  if (step.scalar_count() != 0 && !HasSameScalars(frame, step)) [[unlikely]] {
    if (!OthersMayBecome(frame, node, step)) return Likeness::kNone;
  }
  if (step.static_count() != 0 && !HasSameStatics(frame, step)) {
    return Likeness::kNone;
  }
  const CompactArg* const end = step.args() + step.arg_count();
  const TensorRef* ref = frame.tensors.begin();
  for (const CompactArg* arg = step.args(); arg != end; ++arg) {
    const c10::TensorImpl* impl = (ref++)->impl;
    const TensorTemplate* form = arg->form;
    if (impl == nullptr || form == nullptr) [[unlikely]] {
      if (impl != nullptr || form != nullptr) return Likeness::kNone;
      continue;
    }
    std::int64_t shift = 0;  // forms with bytes begin at offset 0
    if (!HasBytesOf(impl, *form) && !HasGeometryOf(impl, *form, &shift)) {
      return Likeness::kNone;
    }
    if (likeness != Likeness::kSame && !IsOwned(impl, *arg, shift)) {
      likeness = Likeness::kSame;
    }
  }
  return likeness;
}

// REQUIRES: mutex_ held. False, and nothing has changed, if it cannot be.
[[gnu::noinline]] bool OpDeferral::BindAndClaim(const CallFrame& frame,
                                                 const TraceNode& node) {
  const std::size_t slots_before = run_.slots.size();
  BailReason why = BailReason::kOpDiffers;
  if (!BindSlots(frame, node, &run_, &why)) return false;
  if (ClaimSlots(SlotArgs(node))) return true;
  UnbindFrom(&run_, slots_before);
  return false;
}

// REQUIRES (both): mutex_ held. None, and nothing has changed, if the call is
// another.
[[gnu::noinline]] std::optional<Decision> TraceCursor::AdvanceLike(
    CallFrame& frame, TraceNode* node, const CompactStep* step) {
  const Likeness likeness = LikenessTo(frame, *node, *step);
  if (likeness == Likeness::kNone) return std::nullopt;
  const bool is_owned = likeness == Likeness::kOwned;
  if (!is_owned && !BindAndClaim(frame, *node)) return std::nullopt;
  cursor_ = node;
  return AdvanceDeferring(frame, node, step, is_owned);
}

[[gnu::always_inline]] inline std::optional<Decision> TraceCursor::AdvanceFast(
    CallFrame& frame, TraceNode* node, const CompactStep* step) {
  PrefetchAfter(node);
  if (!step->is_fast() || !IsFastCall(frame, *node, *step)) {
    return AdvanceLike(frame, node, step);
  }
  cursor_ = node;
  try {
    if (DeferFast(frame, node, *step)) [[likely]]
      return Decision::kDeferred;
  } catch (const std::exception&) {
    UndoDefer(frame, node);
    return HaveNoMemory(frame);
  }
  return AdvanceDeferring(frame, node, step, /*owns_arguments=*/true);
}

[[gnu::always_inline]] inline std::optional<Decision> TraceCursor::FollowFast(
    CallFrame& frame) {
  TraceNode* node = cursor_->likely.load(std::memory_order_relaxed);
  if (node == nullptr || !node->hot.load(std::memory_order_relaxed) ||
      !run_is_fast_ || modes_ != nullptr || capture_.active() ||
      (!run_deferred_ && capture_is_due()) || t_context.held != nullptr) {
    return std::nullopt;
  }
  const CompactStep* step = CompactStep::Of(*node);
  if (step == nullptr || !step->follows_usually() ||
      !HasKindOf(frame, context_, *step)) {
    return std::nullopt;
  }
  std::optional<Decision> decision;
  {
    const OwnerStateLock lock(this);
    // disable() waits for this lock behind that: what is deferred later than it
    // flushes would never run.
    if (!g_settings.may_defer()) return std::nullopt;
    decision = AdvanceFast(frame, node, step);
  }
  if (decision == Decision::kEager) [[unlikely]]
    MakeReady(frame);
  return decision;
}

bool TraceCursor::EnterFast(CallFrame& frame, Decision* decision) {
  TraceNode* root = root_;
  if (root == nullptr || !root->hot.load(std::memory_order_relaxed) ||
      modes_ != nullptr || g_settings.debug_compile() ||
      t_context.held != nullptr || IsWatched()) {
    return false;
  }
  const CompactStep* step = CompactStep::Of(*root);
  if (step == nullptr || !step->follows_usually()) return false;
  Trace* trace = root->owner.load(std::memory_order_acquire);
  if (trace == nullptr || (trace->starts_at_boundary && !at_boundary_) ||
      trace->skip.load(std::memory_order_relaxed) > 0 ||
      trace->trial.runs_eagerly()) {
    return false;
  }
  if (!HasKindOf(frame, context_, *step) ||
      LikenessTo(frame, *root, *step) == Likeness::kNone) {
    return false;
  }
  const std::int64_t entry = trace->entries.load(std::memory_order_relaxed);
  // TryEnter() looks at the clock, or makes ready to compare or to record.
  if (Trace::IsMeasured(entry) || AsksAtEachRun() ||
      (g_settings.shadow_sample() != 0 && IsSampled(*trace, entry))) {
    return false;
  }
  {
    const OwnerStateLock lock(this);
    if (!g_settings.may_defer()) return false;  // as above
    BeginRun();
    if (!BindAndClaim(frame, *root)) return false;
    trace->entries.fetch_add(1, std::memory_order_relaxed);
    run_began_ns_ = 0;
    cursor_ = root;
    *decision = AdvanceDeferring(frame, root, step, /*owns_arguments=*/false);
  }
  if (*decision == Decision::kEager) [[unlikely]]
    MakeReady(frame);
  return true;
}

[[gnu::always_inline]] inline Decision ThreadState::OnCall(CallFrame& frame) {
  if (frame.entry.op_class == OpClass::kEmpty) return Decision::kEager;
  if (fast_store_ != registry_->store()) [[unlikely]] {
    if (RunsAlone(frame)) return Decision::kEager;
  }
  counters_.ops_seen.Add();
  if (frame.context != 0) counters_.ops_direct.Add();
  context_ = frame.context != 0 ? frame.context : CurrentContext();
  if (g_settings.modes() != ordinary_modes_ && FollowModes()) [[unlikely]]
    return OnCallInMode(frame);
  if (InParallelRegion()) {
    if (function_ != nullptr) function_->Fail(Refusal::kParallel);
    frame.in_region = true;
    CountEager(frame);
    MakeReady(frame);
    return Decision::kEager;
  }
  if (cursor_ != nullptr) {
    const std::optional<Decision> decision = FollowFast(frame);
    if (decision.has_value()) [[likely]]
      return *decision;
  }
  return Decide(frame);
}

namespace {

// OnCall() with a row for the op, or where `tjit attach` may want something.
[[gnu::noinline]] Decision OnLoggedCall(ThreadState* state, CallFrame& frame) {
  ThreadRegistry::Get()->LookAtAttach();
  const bool is_logged =
      InstructionLogOn() && frame.entry.op_class != OpClass::kEmpty;
  Decision decision = Decision::kEager;
  if (state != LogOnlyState()) {
    try {
      decision = state->OnCall(frame);
    } catch (const std::exception&) {  // what was pending lacked memory
      state->CountThrow();
      if (is_logged) {
        LogEagerCall(frame);
        LogThrow();
      }
      throw;
    }
  }
  if (!is_logged) return decision;
  if (decision == Decision::kDeferred) {
    LogDeferredCall(frame);
  } else {
    LogEagerCall(frame);
  }
  return decision;
}

}  // namespace

[[gnu::hot]] Decision OnCall(ThreadState* state, CallFrame& frame) {
  if (LogsOrIsAsked()) [[unlikely]]
    return OnLoggedCall(state, frame);
  try {
    return state->OnCall(frame);
  } catch (const std::exception&) {  // what was pending lacked memory
    state->CountThrow();
    throw;
  }
}

}  // namespace tjit::runtime

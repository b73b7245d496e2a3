// The half of ThreadState that other threads may reach: ownership of blocks,
// flushing and draining. All of it runs under mutex_.
#include <ATen/detail/FunctionTraits.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

#include <bit>
#include <exception>
#include <optional>

#include "runtime/call/interpose.h"
#include "runtime/memory/deferred_storage.h"
#include "runtime/memory/reserved_block.h"
#include "runtime/platform/settings.h"
#include "runtime/platform/small_stack.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/platform/thread_context.h"
#include "runtime/platform/watchdog.h"
#include "runtime/report/instruction_log.h"
#include "runtime/report/log.h"
#include "runtime/report/own_span.h"
#include "runtime/report/strict.h"
#include "runtime/thread/loop_state.h"
#include "runtime/thread/match.h"
#include "runtime/thread/materialize.h"
#include "runtime/thread/observers.h"
#include "runtime/thread/region_visits.h"
#include "runtime/thread/self_check/mode_state.h"
#include "runtime/thread/thread_registry.h"
#include "runtime/thread/thread_state.h"
#include "support/log.h"

namespace tjit::runtime {
namespace {

class Mute : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

// What the executor switches off while it runs (design 3): observers,
// warnings, allocation reports, our own wrappers.
class ExecutorScope {
 public:
  explicit ExecutorScope(const std::vector<TraceNode*>& steps)
      : saved_(c10::WarningUtils::get_warning_handler()) {
    static auto* mute = new Mute;
    c10::WarningUtils::set_warning_handler(mute);
    ++t_context.inside;
    if (!at::hasCallbacks()) return;
    try {
      span_.emplace();
      span_->Begin(OpsText(steps), steps);
    } catch (const std::bad_alloc&) {  // no name: no span
      span_.reset();
    }
    only_own_.emplace();
  }
  ~ExecutorScope() {
    only_own_.reset();
    span_.reset();
    --t_context.inside;
    c10::WarningUtils::set_warning_handler(saved_);
  }
  ExecutorScope(const ExecutorScope&) = delete;
  ExecutorScope& operator=(const ExecutorScope&) = delete;

 private:
  c10::WarningHandler* saved_;
  std::optional<OwnSpan> span_;
  // Observers are rare, and the guard makes the thread's next op look for them
  // anew.
  std::optional<OnlyOwnSpans> only_own_;
  QuietScope quiet_;
};

// Says that a state runs what is pending, see PendingQueue::Flushing.
class FlushingScope {
 public:
  explicit FlushingScope(std::atomic<PendingQueue::Flushing>* flushing)
      : flushing_(flushing) {
    flushing_->store(PendingQueue::Flushing::kYes);
  }
  ~FlushingScope() { flushing_->store(PendingQueue::Flushing::kNo); }
  FlushingScope(const FlushingScope&) = delete;
  FlushingScope& operator=(const FlushingScope&) = delete;

 private:
  std::atomic<PendingQueue::Flushing>* const flushing_;
  const Watched watched_{"runs what is pending"};
};

// Makes the process as it was when the ops were deferred.
class GlobalContextScope {
 public:
  explicit GlobalContextScope(const GlobalContext& then)
      : now_(GlobalContext::Now()), differs_(!(now_ == then)) {
    if (differs_) then.Apply();
  }
  ~GlobalContextScope() {
    if (differs_) now_.Apply();
  }
  GlobalContextScope(const GlobalContextScope&) = delete;
  GlobalContextScope& operator=(const GlobalContextScope&) = delete;

 private:
  const GlobalContext now_;
  const bool differs_;
};

}  // namespace

[[gnu::hot]] void PendingQueue::MakeReady(const CallFrame& frame) {
  if (!g_settings.AnyPending()) return;
  const OpClass op_class = frame.entry.op_class;
  if (op_class == OpClass::kMetadata) return;
  FlushReason reason = FlushReason::kOpAtCall;
  if (op_class == OpClass::kSync) reason = FlushReason::kItem;
  if (op_class == OpClass::kRandom) {
    if (Planted(Defect::kLateRandomDraw)) return;
    reason = FlushReason::kRandomDependency;
  }
  for (const TensorRef& ref : frame.tensors) {
    if (ref.impl == nullptr) continue;
    const c10::StorageImpl* storage = StorageOf(ref.impl);
    if (storage == nullptr || !ref.impl->device().is_cpu()) {
      registry_->FlushAll(FlushReason::kForeignKey);
      return;
    }
    const Block* block = BlockOf(storage);
    if (block == nullptr) continue;
    if (ref.written && !Planted(Defect::kOtherThreadWrite)) {
      FlushReaders(block, reason);
    }
    PendingQueue* owner = block->owner.load(std::memory_order_acquire);
    if (owner == nullptr ||
        (owner != this && Planted(Defect::kOtherThreadWrite))) {
      continue;
    }
    const std::uint8_t pending =
        block->pending.load(std::memory_order_relaxed);
    if ((pending & Block::kPendingWrite) != 0 ||
        (ref.written && pending != 0)) {
      owner->Flush(owner == this ? reason : FlushReason::kOtherThread);
    }
  }
}

void PendingQueue::Flush(FlushReason reason) {
  if (has_pending()) FlushSurely(reason);
}

void PendingQueue::FlushSurely(FlushReason reason) {
  if (HasSmallStack()) [[unlikely]] {
    RunOnUsualStack([&] {
      const StateLock lock(this);
      FlushLocked(reason);
    });
    return;
  }
  StateLock lock(this);
  FlushLocked(reason);
}

// Who reads a shared block is not known, only how many.
void PendingQueue::FlushReaders(const Block* block, FlushReason reason) {
  if (!block->has_readers()) return;
  Flush(reason);
  if (block->has_readers()) registry_->FlushAll(FlushReason::kOtherThread);
}

void PendingQueue::LockForFork() {
  if (t_context.held == this) return;
  if (t_context.state == this) {
    mutex_.LockAsOwner();
  } else {
    mutex_.LockAsOther();
  }
}

void PendingQueue::UnlockAfterFork() {
  if (t_context.held == this) return;
  if (t_context.state == this) {
    mutex_.UnlockAsOwner();
  } else {
    mutex_.UnlockAsOther();
  }
}

void PendingQueue::FlushLocked(FlushReason reason) {
  if (const std::exception_ptr error = RunPending(reason)) {
    std::rethrow_exception(error);
  }
}

void PendingQueue::DrainLocked() {
  if (const std::exception_ptr error = DrainPending()) {
    std::rethrow_exception(error);
  }
}

std::exception_ptr PendingQueue::RunPending(FlushReason reason) {
  const std::size_t ops = run_.pending.size();
  if (ops == 0) return nullptr;
  if (ForcedDrainAt() >= 0) return DrainPending();
  if (LogsTo(LogChannel::kFlush)) PrintFlush(run_, reason, /*drained=*/false);
  const std::uint64_t began_ns =
      t_context.state == this && run_began_ns_ != 0 ? NowNs() : 0;
  const Attempt attempt = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const SegmentRow row(LogEvent::kReplay, run_, reason);
    if (const std::optional<Attempt> alone = RunCodeAlone()) return *alone;
    return TryPending(&PreparedSegment::Execute, reason);
  }();
  if (began_ns != 0) run_executed_ns_ += NowNs() - began_ns;
  if (!attempt.has_run) return attempt.error;
  CountSegment(reason, ops, &counters_);
  AfterFlushLocked();
  return attempt.error;
}

void CountSegment(FlushReason reason, std::size_t ops, Counters* counters) {
  counters->flushes[static_cast<std::size_t>(reason)].Add();
  counters->segments.Add();
  counters->ops_replayed.Add(static_cast<std::int64_t>(ops));
  const std::size_t bin = std::min<std::size_t>(std::bit_width(ops) - 1, 19);
  counters->segment_length[bin].Add();
  counters->segment_ops[bin].Add(static_cast<std::int64_t>(ops));
}

std::exception_ptr PendingQueue::DrainPending() {
  const std::size_t ops = run_.pending.size();
  if (ops == 0) return nullptr;
  if (LogsTo(LogChannel::kFlush)) {
    PrintFlush(run_, FlushReason::kMismatch, /*drained=*/true);
  }
  const Attempt attempt = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const SegmentRow row(LogEvent::kDrain, run_, FlushReason::kMismatch);
    return TryPending(&PreparedSegment::Drain, FlushReason::kMismatch);
  }();
  if (!attempt.has_run) return attempt.error;
  counters_.flushes[static_cast<std::size_t>(FlushReason::kMismatch)].Add();
  counters_.ops_drained.Add(static_cast<std::int64_t>(ops));
  AfterFlushLocked();
  return attempt.error;
}

// Not where another thread asks: the thread count of who called the ops is in
// force then.
std::optional<PendingQueue::Attempt> PendingQueue::RunCodeAlone() {
  if (modes_ != nullptr || t_context.state != this || IsWatched() ||
      !pending_global_.HasArithmeticOfNow()) {
    return std::nullopt;
  }
  PreparedSegment* const segment =
      segments_.Find(run_.pending, pending_global_);
  if (segment == nullptr) return std::nullopt;
  const KernelScope inside;
  const QuietScope quiet;
  try {
    if (!segment->ExecuteAlone(run_, &counters_)) return std::nullopt;
  } catch (const std::exception&) {
    // No memory: TrySegment() says so, or has it by now.
    if (!segment->has_begun()) return std::nullopt;
    return Attempt{true, std::current_exception()};
  }
  counters_.replays_alone.Add();
  return Attempt{true, nullptr};
}

PendingQueue::Attempt PendingQueue::TrySegment(
    const std::vector<TraceNode*>& steps, FlushReason reason, SegmentRun run) {
  GlobalContextScope global(pending_global_);
  ExecutorScope executor(steps);
  const FlushingScope flushing(&flushing_);
  const std::int64_t failed = FailedAllocations();
  PreparedSegment* segment = nullptr;
  try {
    run(&segment);
  } catch (const std::exception& e) {
    const bool has_run = segment != nullptr && segment->has_begun();
    if (!has_run || FailedAllocations() != failed) {
      return {has_run, std::current_exception()};
    }
    RecordStepThrew(segment->running(), e);
  }
  if (modes_ != nullptr) CompareEagerCopies(reason);
  return {true, nullptr};
}

PendingQueue::Attempt PendingQueue::TryPending(
    void (PreparedSegment::*way)(const Run&, Counters*), FlushReason reason) {
  return TrySegment(
      run_.pending, reason,
      [&](PreparedSegment** segment) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        *segment = modes_ == nullptr ? &segments_.For(run_, pending_global_)
                                     : &SegmentInMode();
        ((*segment)->*way)(run_, &counters_);
      });
}

void PendingQueue::RecordStepThrew(const TraceNode& step,
                                   const std::exception& e) {
  RecordBail(&counters_, BailReason::kStepThrew, step.step.op,
             IsStrict(VisitsOf(*this)));
  LogStepThrew(step, e.what());
}

void PendingQueue::CountBail(BailReason why, std::uint32_t trace_id, OpId op) {
  RecordBail(&counters_, why, op, IsStrict(VisitsOf(*this)));
  LogBail(why, trace_id);
}

void PendingQueue::AfterFlushLocked() {
  if (modes_ != nullptr) [[unlikely]]
    modes_->calls.Clear();
  for (const std::uint32_t s : run_.readers) {
    SlotBinding& slot = run_.slots[s];
    slot.reader = false;
    if (!slot.block->DropReader()) continue;
    FreeBlock(slot.block);
    slot.block = nullptr;
  }
  run_.readers.clear();
  for (const std::uint32_t s : run_.owned) {
    SlotBinding& slot = run_.slots[s];
    slot.owned = false;
    slot.born_pending = false;
    Block* block = slot.block;
    if (block == nullptr) continue;
    block->pending.store(0, std::memory_order_relaxed);
    block->owner.store(nullptr, std::memory_order_release);
    if (slot.held) {
      slot.held = false;
      slot.block = nullptr;
      FreeBlock(block);
    }
  }
  run_.owned.clear();
  run_.pending.clear();
  pending_is_plain_ = false;
  run_.held_bytes = 0;
  pending_count_.store(0, std::memory_order_relaxed);
  g_settings.CountPending(false);
}

[[gnu::noinline]] bool PendingQueue::TakeOverLocked(Block* block) {
  if (block->owner.load(std::memory_order_acquire) != this) return false;
  auto s = static_cast<std::uint32_t>(
      block->binding.load(std::memory_order_relaxed) & Run::kSlotMask);
  if (s >= run_.slots.size() || run_.slots[s].block != block ||
      !run_.slots[s].owned) {
    // Bound by another thread since, or owned over another slot that shares it;
    // ours is found the slow way.
    for (const std::uint32_t owned : run_.owned) {
      if (run_.slots[owned].block == block) s = owned;
    }
  }
  SlotBinding& slot = run_.slots[s];
  if (slot.born_pending) {
    slot.block = nullptr;
    block->owner.store(nullptr, std::memory_order_relaxed);
    block->pending.store(0, std::memory_order_relaxed);
    return false;
  }
  slot.held = true;
  block->program.store(false, std::memory_order_relaxed);
  run_.held_bytes += block->bytes;
  return true;
}

// The usual end of a result: pending ops of this thread make it, and nobody
// else bound it.
[[gnu::always_inline]] inline bool PendingQueue::DropsBorn(Block* block) {
  if (t_context.state != this || t_context.held != nullptr) [[unlikely]] {
    return false;
  }
  const OwnerStateLock lock(this);
  const std::uint64_t s =
      block->binding.load(std::memory_order_relaxed) & Run::kSlotMask;
  if (block->owner.load(std::memory_order_relaxed) != this ||
      s >= run_.slots.size()) {
    return false;
  }
  SlotBinding& slot = run_.slots[s];
  if (slot.block != block || !slot.born_pending) return false;
  slot.block = nullptr;
  block->owner.store(nullptr, std::memory_order_relaxed);
  block->pending.store(0, std::memory_order_relaxed);
  return true;
}

[[gnu::noinline]] bool PendingQueue::TakeOver(Block* block) {
  const StateLock lock(this);
  return TakeOverLocked(block);
}

[[gnu::hot]] bool TakeOverDeadBlock(Block* block) {
  PendingQueue* owner = block->owner.load(std::memory_order_acquire);
  return owner != nullptr && !owner->DropsBorn(block) && owner->TakeOver(block);
}

std::string PendingQueue::SegmentsToText() {
  StateLock lock(this);
  return segments_.ToText();
}

void TraceCursor::LeavePath(bool drains) {
  StateLock lock(this);
  if (drains) {
    DrainLocked();
  } else {
    FlushLocked(FlushReason::kSyncCall);
  }
  UnbindFrom(&run_, 0);
  if (modes_ != nullptr) [[unlikely]]
    EndSample();
  cursor_ = nullptr;
  eager_node_ = nullptr;
  root_ = nullptr;
  unseen_node_ = nullptr;
  capture_.Stop();
  scheduled_ = {};
  detector_.Break();
  loops_->due = false;
  at_boundary_ = true;
  after_mark_step_ = false;
}

void ThreadState::Reset() {
  LeavePath();
  ForgetTrial();
  captures_.Reset();
  if (RegionVisits* const visits = VisitsOf(*this)) visits->Forget();
  loops_->new_traces = 0;
  loops_->runs = 0;
  exits_.clear();
  missed_roots_.clear();
}

void ThreadState::StartOver() {
  Reset();
  StateLock lock(this);
  segments_.Clear();
  detector_ = HotDetector();
  *loops_ = LoopState();
}

}  // namespace tjit::runtime

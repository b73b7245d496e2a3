// The pending ops of a thread: who owns which blocks, and how the ops run.
//
// The lowest of the parts of a thread's state (thread_state.h). Pending ops are
// a contiguous part of the path that the thread follows. They run as one
// prepared segment (Flush), or one by one through eager kernels (Drain).
// Invariants: (1) A block has at most one owner, which changes under that
// owner's mutex_. (2) What an op changes is changed after it has matched.
// Threads: the owning thread appends; any thread flushes, and takes what a dead
// block leaves, under mutex_.
// Tested by: tests/runtime/thread/engagement_test.cpp,
// tests/runtime/replay_test.cpp, tests/runtime/platform/waiting_test.cpp
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "recorder/op_counts.h"
#include "recorder/trace.h"
#include "runtime/call/call_frame.h"
#include "runtime/call/eager_call.h"
#include "runtime/call/kernel_state.h"
#include "runtime/call/trace_run.h"
#include "runtime/platform/biased_lock.h"
#include "runtime/platform/thread_context.h"
#include "runtime/segment/prepared_segment.h"
#include "support/counters.h"
#include "support/policy.h"

namespace tjit::runtime {

class OwnerStateLock;
class RegionVisits;
class SlotArgs;
class StateLock;
class ThreadRegistry;
struct Difference;
struct ModeState;

class PendingQueue {
 public:
  PendingQueue(const PendingQueue&) = delete;
  PendingQueue& operator=(const PendingQueue&) = delete;

  // Runs what is pending. From any thread, outside kernels.
  void Flush(FlushReason reason);
  // Runs what pending ops of any thread read of `block`.
  void FlushReaders(const Block* block, FlushReason reason);
  // The same where an op of the owner may just be on its way.
  void FlushSurely(FlushReason reason);
  // Around fork(): no other thread is inside, in parent and child.
  void LockForFork() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void UnlockAfterFork() ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // The deleter of a block with pending ops of this state fired: first the
  // usual case, then all of them.
  bool DropsBorn(Block* block);
  bool TakeOver(Block* block);
  // Whether the mutex is held while kernels run: what is pending, or the call
  // that a test mode has open. See Note [Who may wait] in materialize.cpp.
  enum class Flushing : std::uint8_t { kNo, kYes, kOpenCall };
  Flushing flushing() const {
    return flushing_.load(std::memory_order_acquire);
  }
  bool has_pending() const {
    return pending_count_.load(std::memory_order_relaxed) != 0;
  }

  // Null: the thread has entered no named region. Never taken back.
  friend RegionVisits* VisitsOf(const PendingQueue& queue) {
    return queue.regions_.load(std::memory_order_acquire);
  }
  std::uint16_t stream() const { return run_.stream; }
  Counters& counters() { return counters_; }
  // Calls that ran eagerly, by op.
  const OpCounts& eager_ops() const { return eager_ops_; }
  // The prepared segments, as text.
  std::string SegmentsToText();

 protected:
  PendingQueue(ThreadRegistry* registry, std::uint16_t stream,
               std::shared_ptr<TraceStore> store);
  ~PendingQueue();

  void CountEager(const CallFrame& frame) {
    counters_.ops_eager.Add();
    eager_ops_.Add(frame.entry.id);
  }
  // Makes the arguments of an eager op ready: flushes their owners.
  void MakeReady(const CallFrame& frame);
  void FlushForeignOwners(const CallFrame& frame);
  // Makes this state the owner of the step's blocks; false if another thread
  // owns one, or the thread's own ops must run first.
  bool ClaimSlots(const SlotArgs& args) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if ClaimSlots() may have failed because of blocks that the thread owns
  // over other slots: these are free once its ops have run.
  // REQUIRES: the slots of the step are bound.
  bool MustRunFirst(const StepRecord& step) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The same for one slot. Where that fails the slot may be the owner's, or
  // count as a reader, all the same: run_.owned and run_.readers say so.
  bool ClaimSlot(std::uint32_t slot, bool to_write)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return to_write ? ClaimToWrite(slot) : ClaimToRead(slot);
  }

  // THROW what allocation threw. If no op has run yet, all stay pending: the
  // program may free memory and go on.
  void FlushLocked(FlushReason reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DrainLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same, returned instead of thrown.
  std::exception_ptr RunPending(FlushReason reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::exception_ptr DrainPending() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AfterFlushLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A run of steps, under pending_global_. `has_run` is false if none began:
  // then nothing has changed. `error`: memory that could not be had.
  struct Attempt {
    bool has_run = false;
    std::exception_ptr error;
  };
  // `run` says which segment it runs before it does.
  using SegmentRun = absl::FunctionRef<void(PreparedSegment** segment)>;
  Attempt TrySegment(const std::vector<TraceNode*>& steps, FlushReason reason,
                     SegmentRun run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountBail(BailReason why, std::uint32_t trace_id, OpId op);

  // A call of the program that a test mode keeps open, its op pending and the
  // mutex held: shadow.cpp.
  void OpenCallFor(const StepRecord& step, TraceNode* node,
                   std::size_t slots_before, StateLock lock);
  void OpenShadow(StateLock lock);
  void EndOpenCall();
  void OwnResult(std::uint32_t slot);
  bool BindShadowResults(const TraceNode* node, const ResultList& results);
  void RecordMismatch(const Difference& difference);
  // A run that TJIT_SHADOW=sample:N compares, or that is recorded for a file,
  // is over: later ones are as fast as ever. Nothing happens if there is none,
  // or its ops are still pending.
  void EndSample() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The run is not recorded any more: write_asked.cpp.
  void EndAsked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ThreadRegistry* const registry_;
  std::shared_ptr<TraceStore> store_;  // that cursor and segments belong to
  Counters counters_;
  OpCounts eager_ops_;
  Run run_;
  std::uint64_t run_began_ns_ = 0;     // of a measured run, else 0
  std::uint64_t run_executed_ns_ = 0;  // of it: what was pending ran
  // Clang checks who calls what wants it held. What it guards is not annotated:
  // the owner reads it without.
  OwnerLock mutex_;
  std::atomic<std::uint32_t> pending_count_{0};
  std::atomic<Flushing> flushing_{Flushing::kNo};
  GlobalContext pending_global_;
  bool pending_reports_ = false;  // allocations are reported
  // Ops are pending, and neither that, nor are allocations filled.
  bool pending_is_plain_ = false;
  std::size_t pending_limit_ = 0;  // ops that run without being asked for
  SegmentCache segments_;
  std::unique_ptr<ModeState> modes_;  // null where none is on
  // Owned. Null until a named region was entered.
  std::atomic<RegionVisits*> regions_{nullptr};

 private:
  friend class OwnerStateLock;
  friend class StateLock;

  bool ClaimToWrite(std::uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ClaimToRead(std::uint32_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same for compiled code alone, whose bits depend on the arithmetic only:
  // no observer or setting is for it, no thread of it waits for this state.
  // None, and nothing has run, if it is to be TrySegment()'s.
  std::optional<Attempt> RunCodeAlone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RecordStepThrew(const TraceNode& step, const std::exception& e);
  // The same for what is pending: all of it stays so if no step began.
  Attempt TryPending(void (PreparedSegment::*way)(const Run&, Counters*),
                     FlushReason reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TakeOverLocked(Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  PreparedSegment& SegmentInMode() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CompareEagerCopies(FlushReason reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
};

// So many ops ran as a segment, which `reason` asked for.
void CountSegment(FlushReason reason, std::size_t ops, Counters* counters);

// Holds the mutex of a state and notes it in t_context, so that deleters that
// fire under it do not lock again.
class ABSL_SCOPED_LOCKABLE StateLock {
 public:
  explicit StateLock(PendingQueue* state)
      ABSL_EXCLUSIVE_LOCK_FUNCTION(state->mutex_)
      ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // `is_owner`: this thread owns `state`.
  StateLock(PendingQueue* state, bool is_owner)
      ABSL_EXCLUSIVE_LOCK_FUNCTION(state->mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS
      : state_(state),
        outer_(t_context.held),
        locked_(outer_ != state),
        owner_(is_owner) {
    if (!locked_) return;
    if (owner_) {
      state_->mutex_.LockAsOwner();
    } else {
      state_->mutex_.LockAsOther();
    }
    t_context.held = state_;
  }
  StateLock(StateLock&& other) noexcept
      : state_(other.state_),
        outer_(other.outer_),
        locked_(std::exchange(other.locked_, false)),
        owner_(other.owner_) {}
  ~StateLock() ABSL_UNLOCK_FUNCTION() { Unlock(); }
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;
  void Unlock() ABSL_UNLOCK_FUNCTION() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (!locked_) return;
    locked_ = false;
    t_context.held = outer_;
    if (owner_) {
      state_->mutex_.UnlockAsOwner();
    } else {
      state_->mutex_.UnlockAsOther();
    }
  }

 private:
  PendingQueue* const state_;
  PendingQueue* const outer_;
  bool locked_;
  const bool owner_;
};

// The same for the owner, in fewer instructions. REQUIRES: this thread holds
// the mutex of no state.
class ABSL_SCOPED_LOCKABLE OwnerStateLock {
 public:
  explicit OwnerStateLock(PendingQueue* state)
      ABSL_EXCLUSIVE_LOCK_FUNCTION(state->mutex_)
      : state_(state) {
    state_->mutex_.LockAsOwner();
    t_context.held = state_;
  }
  ~OwnerStateLock() ABSL_UNLOCK_FUNCTION() {
    t_context.held = nullptr;
    state_->mutex_.UnlockAsOwner();
  }
  OwnerStateLock(const OwnerStateLock&) = delete;
  OwnerStateLock& operator=(const OwnerStateLock&) = delete;

 private:
  PendingQueue* const state_;
};

}  // namespace tjit::runtime

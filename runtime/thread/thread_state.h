// The state machine of one thread: records tokens, follows hot traces,
// defers, and falls back.
//
//   kIdle       no trace is followed: every op becomes a token; a closed
//               period starts a capture, the first op of a trace a run
//   kFollowing  the cursor is on a node of the trie: an op that matches a
//               child is counted (the trace is not hot yet) or deferred
//   capturing   (beside either) steps are recorded in full for the store
//
// A mismatch at depth k drains the pending ops eagerly, in order, and the op
// goes on as if nothing had been followed.
//
// Invariants: (1) ops_seen = ops_eager + ops_replayed + ops_drained + pending.
// (2) Pending ops are a contiguous part of the run's path. (3) Nothing is
// changed before a step has matched completely (Note [Guards before side
// effects]). (4) A state is never destroyed; a thread that ends hands it back
// with what is pending, which runs where it is needed.
// Threads: everything belongs to the owning thread but what mutex_ guards:
// run_.pending and what flushing needs; other threads flush through Flush().
// Tested by: tests/runtime/{engagement,replay}_test.cpp
#pragma once

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "recorder/hot_detector.h"
#include "recorder/op_counts.h"
#include "recorder/thread_trial.h"
#include "recorder/trace.h"
#include "runtime/call/call_frame.h"
#include "runtime/call/eager_call.h"
#include "runtime/call/kernel_state.h"
#include "runtime/call/trace_run.h"
#include "runtime/platform/biased_lock.h"
#include "runtime/platform/thread_context.h"
#include "runtime/segment/prepared_segment.h"
#include "runtime/thread/step_recorder.h"
#include "support/counters.h"

namespace tjit {
class Engine;
}

namespace tjit::runtime {

// Of a clock that only goes on.
inline std::uint64_t NowNs() {
  return static_cast<std::uint64_t>(
      std::chrono::steady_clock::now().time_since_epoch().count());
}

// Processor time of the calling thread. A system call.
inline std::uint64_t ThreadNs() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

enum class Likeness : std::uint8_t;
struct CompactArg;
struct CompactResult;
class CompactStep;
struct LoopState;
class Runtime;
class OwnerStateLock;
class StateLock;
struct Difference;
struct ModeState;

class ThreadState {
 public:
  ThreadState(Runtime* runtime, std::uint16_t stream,
              std::shared_ptr<TraceStore> store);
  ~ThreadState();
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

  // A wrapped op was called. kDeferred: done, results in the frame.
  Decision OnCall(CallFrame& frame);
  // The eager kernel has run. `boxed` holds the call's arguments if the frame
  // wants_capture.
  void AfterEager(CallFrame& frame, const ResultList& results,
                  torch::jit::Stack* boxed);
  void OnThrow(CallFrame& frame);
  void OnMarkStep();
  // Who watches ops changed. The owner's, outside kernels.
  void OnWatchersChange();

  // Runs what is pending. From any thread, outside kernels.
  void Flush(FlushReason reason);
  // Runs what pending ops of any thread read of `block`.
  void FlushReaders(const Block* block, FlushReason reason);
  // The same where an op of the owner may just be on its way.
  void FlushSurely(FlushReason reason);
  // Around fork(): no other thread is inside, in parent and child.
  void LockForFork();
  // What was measured is nothing any more: of a child of fork(), whose clock
  // begins anew, and where the options are others.
  void ForgetTrial();
  void UnlockAfterFork();
  // Runs what is pending and forgets cursor and capture. The owner's.
  void Reset();
  // Takes the present store: runs what is pending, forgets cursor and capture
  // and, but for what is in a copy of the old store, what was learned. The
  // owner's, or of a state without one. THROWS what allocation threw: then the
  // store is the old one.
  void TakeStore();
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

  std::uint16_t stream() const { return stream_; }
  Counters& counters() { return counters_; }
  // Calls that ran eagerly, by op.
  const OpCounts& eager_ops() const { return eager_ops_; }
  // The prepared segments, as text.
  std::string SegmentsToText();
  // A call threw before it was decided: it counts as an eager one.
  void CountThrow();
  // A mutable pointer into `block` was handed out.
  void CountHook(bool exposed);

 private:
  friend class OwnerStateLock;
  friend class StateLock;

  // Of a run. kEager: nothing is deferred; kWatched: see Note [Observers].
  enum class RunKind : std::uint8_t { kUsual, kEager, kWatched };

  void SetRunKind(RunKind kind) {
    run_kind_ = kind;
    run_is_usual_ = kind == RunKind::kUsual;
  }

  Decision Decide(CallFrame& frame);
  // Whether tjit pays on this thread: alone.cpp.
  // REQUIRES: usual_store_ is not the runtime's store. True if the op is to run
  // as if nobody looked.
  bool RunsAlone(CallFrame& frame);
  void LookAtTrial();
  void TurnTrial();
  // Nothing is looked at.
  bool IsAlone() const {
    return usual_store_ == nullptr && trial_->is_blind();
  }
  void CountEager(const CallFrame& frame) {
    counters_.ops_eager.Add();
    eager_ops_.Add(frame.entry.id);
  }
  // Idle: tokens, candidates, entry of traces.
  Decision RunEagerly(CallFrame& frame);
  void ObserveToken(const CallFrame& frame, std::uint8_t extra_flags);
  bool TryEnter(CallFrame& frame, Decision* decision);
  // Eager runs that nobody follows, see Note [Runs that nobody sees].
  void BeginUnseen(TraceNode* root);
  bool ContinueUnseen(const CallFrame& frame);
  Decision RunUnseen(CallFrame& frame);
  void EndUnseen();
  // The same where the run before began in the same way; false, and nothing
  // has changed, for others.
  bool EnterUsual(CallFrame& frame, Decision* decision);
  // The first root that matches the shape of the call and is accepted.
  template <class Accept>
  TraceNode* FindRoot(const CallFrame& frame, Accept accept) const;
  void NoteMissedRoot(const CallFrame& frame);
  void OnCandidate(const HotDetector::Candidate& candidate);

  // Following.
  bool TryFollow(CallFrame& frame, Decision* decision);
  // The same for the usual step; none, and nothing has changed, for others.
  std::optional<Decision> FollowUsual(CallFrame& frame);
  Likeness LikenessTo(const CallFrame& frame, const TraceNode& node,
                      const CompactStep& step) const;
  bool IsOwned(const c10::TensorImpl* impl, const CompactArg& arg,
               std::int64_t shift) const;
  bool BindAndClaim(const CallFrame& frame, const TraceNode& node);
  TraceNode* FindChild(TraceNode* from, CallFrame& frame, BailReason* why);
  // REQUIRES: mutex_ held.
  bool ValuesPassWhenReady(CallFrame& frame);
  // Makes this state the owner of the step's blocks; false if another thread
  // owns one.
  bool ClaimSlots(const StepRecord& step);
  bool ClaimToWrite(std::uint32_t slot);
  bool ClaimToRead(std::uint32_t slot);
  void FlushForeignOwners(const CallFrame& frame);
  Decision Take(CallFrame& frame, TraceNode* node, bool defers);
  Decision TakeDeferred(CallFrame& frame, TraceNode* node);
  Decision TakeUsual(CallFrame& frame, TraceNode* node, const CompactStep* step,
                     bool owns_arguments);
  std::optional<Decision> TakeLike(CallFrame& frame, TraceNode* node,
                                   const CompactStep* step);
  std::optional<Decision> TakeNext(CallFrame& frame, TraceNode* node,
                                   const CompactStep* step);
  Decision HaveNoMemory(const CallFrame& frame);
  void MoveCursor(TraceNode* node);
  // False if there is no memory for the results: nothing has changed then.
  // `made`: the node's compact step, null if it has none yet.
  // `owns_arguments`: pending ops own them all.
  bool Defer(CallFrame& frame, TraceNode* node, const CompactStep* made,
             bool owns_arguments);
  static bool IsLeanArgument(const c10::TensorImpl* impl, const CompactArg& arg,
                             const SlotBinding& slot);
  bool IsLeanCall(const CallFrame& frame, const TraceNode& node,
                  const CompactStep& step) const;
  bool DeferLean(CallFrame& frame, TraceNode* node, const CompactStep& step);
  // The parts of both.
  void BeginPending();
  void BeginSegment();
  void KeepScalars(const CallFrame& frame, const TraceNode* node,
                   const CompactStep& step);
  void OwnArguments(const CallFrame& frame, const TraceNode* node,
                    const CompactStep& step);
  void UseOwnedArguments(const CallFrame& frame, const CompactStep& step);
  void UseSlot(const CompactStep& step, const CompactArg& arg,
               SlotBinding* slot);
  void MakeResults(CallFrame& frame, const TraceNode* node,
                   const CompactStep& step);
  void OwnNew(Block* block, std::uint32_t s);
  void AddPending(TraceNode* node);
  void RunFullQueue();
  void UndoDefer(CallFrame& frame, const TraceNode* node);
  at::Tensor MakeDeferred(const CompactResult& result, bool dies);
  at::Tensor TakeParked(const CompactResult& result, bool dies, Block** block);
  at::Tensor MakeAnew(const CompactResult& result, bool dies, Block** block);
  void BindEagerResults(const ResultList& results);
  // While somebody watches: observers.cpp.
  bool LearnsCalls(const TraceNode& node) const;
  void LearnCalls(const CallFrame& frame, TraceNode* node);
  static void KeepLearntCalls(const TraceNode& node);
  static void ShowCalls(const TraceNode& node);
  void NoteWrites(const CallFrame& frame, const ResultList& results);
  void FinishRun(FlushReason reason);
  void LeaveTrace(BailReason why);
  void LeaveTraceLocked(BailReason why);
  bool IsUsualExit(const TraceNode* node) const;
  void BeginRun();
  // A run of `trace` begins, a measured one.
  void BeginMeasured(Trace* trace, std::int64_t entry);
  // Runs what is pending, `drains`: op by op, and stands nowhere.
  void LeavePath(bool drains = false);
  void TakeNewStore();
  // Reset(), and forgets segments and tokens.
  void StartOver();

  // Stretches, see Note [Stretches] in loop_policy.cpp.
  bool IsLearning();
  void NoteKind(const CallFrame& frame);
  void NoteRunEnd();
  bool IsStarving() const;
  void MaybeStartStretch();
  void MaybeEndStretch();

  // Sequences of a profile, see Note [Known sequences] in profile_replay.cpp.
  void MaybeStartKnown(const CallFrame& frame);
  void FollowKnown();
  void EndKnown(const CallFrame& frame);
  void FinishKnown();
  void GiveUpKnown();
  bool MarkKnown(const TraceNode* from, std::vector<NewStep>* steps) const;
  void Promote(Trace* trace);

  // Capturing.
  bool capture_is_due() const {
    return scheduled_.period != 0 && scheduled_.wait == 0;
  }
  bool IsExpected(const CallFrame& frame);
  bool IsHotRoot(const CallFrame& frame) const;
  void MaybeStartCapture(bool due);
  void MaybeEndCapture(const CallFrame& frame);
  void EndOpenCapture(const CallFrame& frame);
  void StartCapture(TraceNode* from, std::uint32_t length, bool boundary,
                    std::size_t open_limit = kMaxTraceSteps);
  void FinishCapture();
  bool IsOneSizeTooMany();
  void DropCapture();
  void AbandonCapture();
  void OnBrokenPeriod();
  void TrimToIterations(std::vector<NewStep>* steps) const;
  void EndAtIterations(TraceNode* from, const std::vector<NewStep>& steps,
                       bool boundary);

  // Makes the arguments of an eager op ready: flushes their owners.
  void MakeReady(const CallFrame& frame);

  // TakeOver(). REQUIRES: mutex_ held.
  bool TakeOverLocked(Block* block);

  // REQUIRES (both): mutex_ held.
  // THROW what allocation threw. If no op has run yet, all stay pending: the
  // program may free memory and go on.
  void FlushLocked(FlushReason reason);
  void DrainLocked();
  // The same, returned instead of thrown.
  std::exception_ptr RunPending(FlushReason reason);
  std::exception_ptr DrainPending();
  // Runs or drains what is pending. `has_run` is false if no step began: then
  // all of it stays pending. `error`: memory that could not be had.
  struct Attempt {
    bool has_run = false;
    std::exception_ptr error;
  };
  Attempt TrySegment(void (PreparedSegment::*way)(const Run&, Counters*),
                     FlushReason reason);
  // The same for compiled code alone, whose bits depend on the arithmetic only:
  // no observer or setting is for it, no thread of it waits for this state.
  // None, and nothing has run, if it is to be TrySegment()'s.
  std::optional<Attempt> RunCodeAlone();
  void NoteStepThrew(const TraceNode& step, const std::exception& e);
  void CountBail(BailReason why, std::uint32_t trace_id, OpId op);
  void AfterFlushLocked();

  // While a mode of modes.h is on: modes.cpp, stress_late.cpp, shadow.cpp.
  ModeState& ModesOn(unsigned modes);
  Decision OnCallInMode(CallFrame& frame);
  // True if nothing is left to be done for the call.
  bool AfterEagerInMode(CallFrame& frame, const ResultList& results,
                        torch::jit::Stack* boxed);
  void OnThrowInMode(CallFrame& frame);
  Decision AtCall(CallFrame& frame);
  Decision CallLate(CallFrame& frame);
  void BeginLateRun();
  bool HasStaleCopy(const CallFrame& frame) const;
  bool RecordLate(CallFrame& frame);
  TraceNode* RecordedLate(CallFrame& frame, const ResultList& results,
                          torch::jit::Stack* boxed);
  void OpenCallFor(const StepRecord& step, TraceNode* node,
                   std::size_t slots_before, StateLock lock);
  void OpenShadow(StateLock lock);
  void CloseCall(CallFrame& frame, const ResultList& results,
                 torch::jit::Stack* boxed);
  void GiveUpCall(CallFrame& frame, bool threw);
  void GiveUpCall(CallFrame& frame, const std::vector<SlotBinding>& bound);
  void EndOpenCall();
  void OwnResult(std::uint32_t slot);
  bool BindShadowResults(const TraceNode* node, const ResultList& results);
  PreparedSegment& SegmentInMode();
  void CompareTwins(FlushReason reason);
  void NoteMismatch(const Difference& difference);

  // TJIT_STRESS=hide.
  static void RevealArguments(const CallFrame& frame);
  void HideResults(const CallFrame& frame,
                   const FrameArray<c10::TensorImpl*, 8>& results);

  Runtime* const runtime_;
  const std::uint16_t stream_;
  std::shared_ptr<TraceStore> store_;  // that cursor and segments belong to
  // The same. Null: RunsAlone() is asked about each call.
  const TraceStore* usual_store_ = nullptr;
  std::uint32_t until_look_ = ThreadTrial::kOpsPerRareLook;  // calls
  std::unique_ptr<ThreadTrial> trial_;  // null until the first look
  const Engine* trial_engine_ = nullptr;  // that was there when it began
  std::uint32_t postponed_ = 0;           // looks at which it did not begin
  Counters counters_;
  OpCounts eager_ops_;

  HotDetector detector_;
  std::unique_ptr<LoopState> loops_;
  bool at_boundary_ = true;      // a sync or mark_step came just before
  bool after_mark_step_ = false;
  std::uint32_t context_ = 0;    // of the present call

  // A candidate waits for its phase: ops to let pass, then steps to capture.
  struct Scheduled {
    std::uint32_t wait = 0;
    std::uint32_t period = 0;
    bool boundary = false;
    std::uint32_t times = 0;       // it has come, before
    std::uint32_t iterations = 1;  // to be captured as one trace
  } scheduled_;
  Capture capture_;
  std::uint32_t failed_captures_ = 0;    // in a row
  std::uint64_t no_capture_before_ = 0;  // position in the stream
  std::size_t open_limit_ = 0;  // steps of an open capture

  TraceNode* cursor_ = nullptr;   // last matched node; null: idle
  TraceNode* eager_node_ = nullptr;  // matched, running eagerly now
  TraceNode* root_ = nullptr;     // first node of the last completed path
  bool run_deferred_ = false;     // an op of this run was deferred
  bool run_is_usual_ = true;  // run_kind_ is kUsual: a register less per op
  RunKind run_kind_ = RunKind::kUsual;
  TraceNode* unseen_node_ = nullptr;  // in a run that nobody follows
  std::uint64_t run_began_ns_ = 0;  // of a measured run, else 0
  std::uint64_t run_executed_ns_ = 0;  // of it: what was pending ran
  Run run_;
  // in_vain: since what came was a hot trace's other sizes; looked into when
  // they are 1, 2, 4, 8, ...
  struct Exits {
    std::uint32_t times = 0;
    std::uint32_t in_vain = 0;
  };
  struct Misses {
    std::uint32_t in_vain = 0;
    std::uint64_t shape = 0;  // of the last one
    std::uint32_t same = 0;   // of this shape in a row
  };
  absl::flat_hash_map<std::uint32_t, Exits> exits_;  // by node id
  absl::flat_hash_map<OpId, Misses> missed_roots_;  // by the op that was called

  OwnerLock mutex_;
  std::atomic<std::uint32_t> pending_count_{0};
  std::atomic<Flushing> flushing_{Flushing::kNo};
  GlobalContext pending_global_;
  bool pending_reports_ = false;  // allocations are reported
  // Ops are pending, and neither that, nor are allocations filled.
  bool pending_is_plain_ = false;
  std::size_t pending_limit_ = 0;  // ops that run without being asked for
  SegmentCache segments_;
  std::unique_ptr<ModeState> modes_;  // null until a mode was on
};

// Holds the mutex of a state and notes it in t_context, so that deleters that
// fire under it do not lock again.
class StateLock {
 public:
  explicit StateLock(ThreadState* state)
      : StateLock(state, t_context.state == state) {}
  // `is_owner`: this thread owns `state`.
  StateLock(ThreadState* state, bool is_owner)
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
  ~StateLock() { Unlock(); }
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;
  void Unlock() {
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
  ThreadState* const state_;
  ThreadState* const outer_;
  bool locked_;
  const bool owner_;
};

// The same for the owner, in fewer instructions. REQUIRES: this thread holds
// the mutex of no state.
class OwnerStateLock {
 public:
  explicit OwnerStateLock(ThreadState* state) : state_(state) {
    state_->mutex_.LockAsOwner();
    t_context.held = state_;
  }
  ~OwnerStateLock() {
    t_context.held = nullptr;
    state_->mutex_.UnlockAsOwner();
  }
  OwnerStateLock(const OwnerStateLock&) = delete;
  OwnerStateLock& operator=(const OwnerStateLock&) = delete;

 private:
  ThreadState* const state_;
};

}  // namespace tjit::runtime

// The state machine of one thread: records tokens, follows hot traces,
// defers, and falls back.
//
//   kIdle       no trace is followed: every op becomes a token; a closed
//               period starts a capture, the first op of a trace a run
//   kFollowing  the cursor is on a node of the trie: an op that matches a
//               child is counted (the trace is not hot yet) or deferred
//   kDeferring  the same, and ops of this run are or were pending
//   capturing   (beside each) steps are recorded in full for the store
//
// A mismatch at depth k drains the pending ops eagerly, in order, and the op
// goes on as if nothing had been followed.
//
// The state is made of layers, each a class that sees only what lies below.
// They are bases and not members, as nearly every op goes through all of them:
// one address serves all, and calls go down without a hop.
//
//   ThreadState      how ops come in, trials of the thread, modes of tests
//   FunctionCalls    calls of functions that jit() wraps
//   TraceCursor      entering, following and leaving a trace
//   RecordingPolicy  what is recorded, and when
//   OpDeferral       appends an op whose results come later
//   PendingQueue     the pending ops, whose blocks they own, how they run
//
// Invariants: (1) ops_seen = ops_eager + ops_replayed + ops_drained + pending.
// (2) Pending ops are a contiguous part of the run's path. (3) Nothing is
// changed before a step has matched completely (Note [Guards before side
// effects]). (4) A state is never destroyed; a thread that ends hands it back
// with what is pending, which runs where it is needed.
// Threads: everything belongs to the owning thread but what the mutex of
// PendingQueue guards: run_.pending and what flushing needs; other threads
// flush through Flush(). Tested by: tests/runtime/thread/engagement_test.cpp,
// tests/runtime/replay_test.cpp
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "recorder/region_id.h"
#include "recorder/thread_trial.h"
#include "recorder/trace.h"
#include "runtime/call/call_frame.h"
#include "runtime/call/eager_call.h"
#include "runtime/thread/functions/function_calls.h"
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

class ThreadState : public FunctionCalls {
 public:
  // is_bystander: of no thread. It makes ready what ops read of threads that
  // take no part, of any number at once, and keeps nothing of them; no store.
  ThreadState(ThreadRegistry* registry, std::uint16_t stream,
              std::shared_ptr<TraceStore> store, bool is_bystander = false);
  ~ThreadState();

  // A wrapped op was called. kDeferred: done, results in the frame.
  Decision OnCall(CallFrame& frame);
  // The eager kernel has run. `boxed` holds the call's arguments if the frame
  // wants_capture.
  void AfterEager(CallFrame& frame, const ResultList& results,
                  torch::jit::Stack* boxed);
  void OnThrow(CallFrame& frame);
  void OnMarkStep();
  // The thread is in region `id` from now on. `is_new`: it begins; else an
  // inner one has ended. What fails for lack of memory is said; ops stay
  // pending then.
  void OnRegionEdge(RegionId id, bool is_new) noexcept;

  // What was measured is nothing any more: of a child of fork(), whose clock
  // begins anew, and where the options are others.
  void ForgetTrial();
  // A tjit::Pause of the owner begins: what is pending runs, and ops run
  // eagerly from then on, without being looked at. Or the last one has ended.
  // THROWS what allocation threw, where it begins; it has not begun then.
  void SetPaused(bool is_paused);
  bool is_paused() const { return is_paused_; }
  // Runs what is pending and forgets cursor and capture. The owner's.
  void Reset();
  // Takes the present store: runs what is pending, forgets cursor and capture
  // and, but for what is in a copy of the old store, what was learned. The
  // owner's, or of a state without one. THROWS what allocation threw: then the
  // store is the old one.
  void AdoptStore();

  // Begins the modes that are set, or leaves those that are set no more, with
  // what is pending run. False if none is on. The owner's.
  // THROWS: what a mode that is left has kept, see strict.h.
  bool FollowModes();

  // False: the thread is left alone, or a window of its trial counts.
  bool SeesOps() const { return fast_store_ != nullptr; }

 private:
  Decision Decide(CallFrame& frame);
  // Idle: tokens, candidates, entry of traces.
  Decision RunEagerly(CallFrame& frame);
  // Reset(), and forgets segments and tokens.
  void StartOver();
  void AdoptNewStore();

  // Whether tjit pays on this thread: alone.cpp.
  // REQUIRES: fast_store_ is not the runtime's store. True if the op is to run
  // as if nobody looked.
  bool RunsAlone(CallFrame& frame);
  void RunPaused(CallFrame& frame);
  void LookAtTrial();
  void TurnTrial();
  // Ops are the trial's business first.
  bool TrialLooks() const {
    return trial_ != nullptr && (trial_->counts() || trial_->is_blind());
  }
  // Nothing is looked at.
  bool IsAlone() const { return trial_ != nullptr && trial_->is_blind(); }
  // Says who looks at ops first: RunsAlone(), or nobody.
  void SetFastStore();
  Decision RunUnwatched(CallFrame& frame);

  // While a mode of modes.h is on: modes.cpp, stress_late.cpp, shadow.cpp.
  Decision OnCallInMode(CallFrame& frame);
  // True if nothing is left to be done for the call.
  bool AfterEagerInMode(CallFrame& frame, const ResultList& results,
                        torch::jit::Stack* boxed);
  void OnThrowInMode(CallFrame& frame);
  Decision AtCall(CallFrame& frame);
  Decision CallLate(CallFrame& frame);
  void BeginLateRun();
  bool HasStaleCopy(const CallFrame& frame) const;
  bool RecordLate(CallFrame& frame) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  TraceNode* RecordedLate(CallFrame& frame, const ResultList& results,
                          torch::jit::Stack* boxed);
  // Of the call that is open: modes_->open holds the mutex.
  void CloseCall(CallFrame& frame, const ResultList& results,
                 torch::jit::Stack* boxed) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void GiveUpCall(CallFrame& frame, bool threw);
  void GiveUpCall(CallFrame& frame, const std::vector<SlotBinding>& bound)
      ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // TJIT_STRESS=hide.
  static void RevealArguments(const CallFrame& frame);
  void HideResults(const CallFrame& frame,
                   const FrameArray<c10::TensorImpl*, 8>& results);

  // The store that cursor and segments belong to. Null: RunsAlone() is asked
  // about each call.
  const TraceStore* fast_store_ = nullptr;
  // Settings::modes() with which ops go the ordinary way: what FollowModes()
  // saw last, where none was on.
  unsigned ordinary_modes_ = 0;
  const bool is_bystander_;
  bool is_paused_;
  std::uint32_t until_look_ = ThreadTrial::kOpsPerRareLook;  // calls
  const Engine* trial_engine_ = nullptr;  // that was there when it began
  std::uint32_t postponed_ = 0;           // looks at which it did not begin
};

inline StateLock::StateLock(PendingQueue* state)
    : StateLock(state, t_context.state == state) {}

}  // namespace tjit::runtime

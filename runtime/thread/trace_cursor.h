// The cursor in the trie: enters a trace at its root, matches the next step,
// defers it or counts it, and leaves where the program does something else.
//
// The part of a thread's state (thread_state.h) above its recording policy.
// Thread: the owner's.
// Tested by: tests/runtime/replay_test.cpp,
// tests/runtime/thread/side_exits_test.cpp,
// tests/runtime/thread/observers_test.cpp
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "recorder/thread_trial.h"
#include "recorder/trace.h"
#include "runtime/thread/recording_policy.h"

namespace tjit::runtime {

enum class Likeness : std::uint8_t;

class TraceCursor : public RecordingPolicy {
 public:
  // Who watches ops changed. The owner's, outside kernels.
  void OnWatchersChange();

 protected:
  using RecordingPolicy::RecordingPolicy;

  // kIdle: no trace is followed. kFollowing: the cursor stands in one.
  // kDeferring: ops of this run are pending, or were.
  enum class State : std::uint8_t { kIdle, kFollowing, kDeferring };
  State state() const {
    if (cursor_ == nullptr) return State::kIdle;
    return run_deferred_ ? State::kDeferring : State::kFollowing;
  }

  // ObserveToken() where the stance says that nothing is recorded any more.
  // THROWS what is an error of it.
  void ObserveOnly(const CallFrame& frame);
  bool TryEnter(CallFrame& frame, Decision* decision);
  bool TryFollow(CallFrame& frame, Decision* decision);
  // The same for the usual step; none, and nothing has changed, for others.
  std::optional<Decision> FollowFast(CallFrame& frame);
  void BindEagerResults(const ResultList& results);
  void FinishRun(FlushReason reason);
  void LeaveTrace(BailReason why);
  // Runs what is pending, `drains`: op by op, and stands nowhere.
  void LeavePath(bool drains = false);
  // REQUIRES: mutex_ held, as clang does not know of the lambda that calls it.
  bool ValuesPassWhenReady(CallFrame& frame) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // Eager runs that nobody follows, see Note [Runs that nobody sees].
  bool ContinueUnseen(const CallFrame& frame);
  Decision RunUnseen(CallFrame& frame);
  void EndUnseen();

  // An edge of a named region, or of a function of tjit::jit(): what is
  // followed and recorded ends. THROWS what allocation threw: then the run is
  // as it was.
  void EndAtEdge();

  TraceNode* root_ = nullptr;         // first node of the last completed path
  TraceNode* unseen_node_ = nullptr;  // in a run that nobody follows
  // The last node of the function that was replayed last.
  const TraceNode* function_end_ = nullptr;
  std::unique_ptr<ThreadTrial> trial_;  // null until the first look

 private:
  // TryEnter() where the run before began in the same way; false, and nothing
  // has changed, for others.
  bool EnterFast(CallFrame& frame, Decision* decision);
  void BeginUnseen(TraceNode* root);
  // Whether TJIT_SHADOW=sample:N compares run number `entry` of `trace`.
  static bool IsSampled(const Trace& trace, std::int64_t entry);
  // The run that begins is compared with eager: shadow.cpp.
  void BeginSample();
  // The run that begins at root_ may be asked for as a file: write_asked.cpp.
  void BeginIfAsked(bool is_watched);
  // The run is complete, at cursor_, and what was pending has run.
  void WriteAsked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A run of `trace` begins, a measured one.
  void BeginMeasured(Trace* trace, std::int64_t entry);
  void CutRun();
  void RecordRegionRun(const TraceNode& end) const;

  Likeness LikenessTo(const CallFrame& frame, const TraceNode& node,
                      const CompactStep& step) const;
  bool IsOwned(const c10::TensorImpl* impl, const CompactArg& arg,
               std::int64_t shift) const;
  TraceNode* FindChild(TraceNode* from, CallFrame& frame, BailReason* why);
  Decision Advance(CallFrame& frame, TraceNode* node, bool defers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Decision AdvanceDeferred(CallFrame& frame, TraceNode* node)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Decision AdvanceDeferring(CallFrame& frame, TraceNode* node,
                            const CompactStep* step, bool owns_arguments)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Decision> AdvanceLike(CallFrame& frame, TraceNode* node,
                                      const CompactStep* step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Decision> AdvanceFast(CallFrame& frame, TraceNode* node,
                                      const CompactStep* step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Decision HaveNoMemory(const CallFrame& frame)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MoveCursor(TraceNode* node);
  void LeaveTraceLocked(BailReason why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsUsualExit(const TraceNode* node) const;

  // While somebody watches: observers.cpp.
  bool LearnsCalls(const TraceNode& node) const;
  void LearnCalls(const CallFrame& frame, TraceNode* node);
  static void KeepLearntCalls(const TraceNode& node);
  static void ShowCalls(const TraceNode& node);
};

}  // namespace tjit::runtime

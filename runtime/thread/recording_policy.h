// Decides what is recorded, and when: tokens, candidates, captures, branch
// points of loops, sequences of a profile.
//
// The part of a thread's state (thread_state.h) between what is pending and the
// cursor.
// Thread: the owner's.
// Tested by:
// tests/runtime/thread/{engagement,failed_captures,new_sizes}_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "recorder/backoff.h"
#include "recorder/hot_detector.h"
#include "recorder/trace.h"
#include "runtime/thread/op_deferral.h"
#include "runtime/thread/step_recorder.h"
#include "support/policy.h"

namespace tjit::runtime {

struct LoopState;

class RecordingPolicy : public OpDeferral {
 protected:
  RecordingPolicy(ThreadRegistry* registry, std::uint16_t stream,
                  std::shared_ptr<TraceStore> store);
  ~RecordingPolicy();

  void ObserveToken(const CallFrame& frame, std::uint8_t extra_flags);
  void RecordWrites(const CallFrame& frame, const ResultList& results);
  // The first root that matches the shape of the call and is accepted.
  template <class Accept>
  TraceNode* FindRoot(const CallFrame& frame, Accept accept) const;
  void RecordMissedRoot(const CallFrame& frame);

  // Capturing: record.cpp.
  bool capture_is_due() const {
    return scheduled_.period != 0 && scheduled_.wait == 0;
  }
  bool IsExpected(const CallFrame& frame);
  void MaybeStartCapture(bool due);
  void MaybeEndCapture(const CallFrame& frame);
  void StartCapture(TraceNode* from, std::uint32_t length, bool boundary,
                    std::size_t open_limit = kMaxTraceSteps);
  void FinishCapture();
  void StopCapture();  // nothing is kept of it
  void OnBrokenPeriod();

  // Regions, see Note [Regions] in loop_policy.cpp.
  void RecordPeriod(std::vector<NewStep>* steps);
  void CutSoon();
  void RecordRunEnd();
  bool IsStarving() const;
  void MaybeStartRegion();
  void MaybeEndRegion();
  void GiveUpRegion();
  // A part of a trace that was cut has ended before this op: size_cuts.h.
  void MaybeStartRest(const CallFrame& frame);

  // Sequences of a profile, see Note [Known sequences] in profile_replay.cpp.
  void MaybeStartKnown(const CallFrame& frame);
  void FollowKnown();
  void FinishKnown();

  // A candidate waits for its phase: ops to let pass, then steps to capture.
  struct Scheduled {
    std::uint32_t wait = 0;
    std::uint32_t period = 0;
    bool boundary = false;
    std::uint32_t times = 0;       // it has come, before
    std::uint32_t iterations = 1;  // to be captured as one trace
    bool varies = false;           // its trip count
    std::uint32_t distance = 0;    // as in HotDetector::Candidate
  };
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

  HotDetector detector_;
  std::unique_ptr<LoopState> loops_;
  bool after_mark_step_ = false;
  std::uint32_t context_ = 0;  // of the present call
  Scheduled scheduled_;
  StepRecorder capture_;
  // Note [Captures in vain] in record.cpp.
  Backoff captures_{policy::kMostCaptureFailures, policy::kLongestCapturePause};
  std::size_t open_limit_ = 0;           // steps of an open capture
  absl::flat_hash_map<std::uint32_t, Exits> exits_;  // by node id
  absl::flat_hash_map<OpId, Misses> missed_roots_;  // by the op that was called

 private:
  void OnCandidate(const HotDetector::Candidate& candidate);
  bool IsHotRoot(const CallFrame& frame) const;
  void EndOpenCapture(const CallFrame& frame);
  bool IsOneSizeTooMany();
  void DropCapture();
  void AbandonCapture();
  void EndAtIterations(TraceNode* from, const std::vector<NewStep>& steps,
                       bool boundary);
  bool IsLearning();
  void RecordKind(const CallFrame& frame);
  void EndKnown(const CallFrame& frame);
  void GiveUpKnown();
  void FailCapture(std::size_t recorded);
  bool EndAtKnownCut();
  bool MarkKnown(const TraceNode* from, std::vector<NewStep>* steps) const;
  void Promote(Trace* trace);
};

}  // namespace tjit::runtime

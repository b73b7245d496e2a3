// Whether tjit pays on a thread: the rule that nothing runs slower for it.
//
// A sequence that is replayed has a trial of its own (trace_trial.h). What is
// recorded in vain, left half-way or planned for once has none, and a program
// may be full of that. So where only a part of a thread's ops are replayed,
// windows in which tjit does what it always does and windows in which it looks
// at nothing take turns, in pairs whose order is drawn, and the work done in
// each is compared. Where it loses, the thread is left alone; it is tried again
// after a rest, which doubles each time. Where it wins, it is tried again much
// later, or when much more has been recorded than at that time.
//
// Work: a program's windows differ, as it trains here and evaluates there. So
// calls are weighed, each op by what it took, from its call to the next, in the
// windows in which nobody looked. Time: the thread's own processor time, which
// other programs of a busy machine do not change.
//
// A window holds several turns of the longest sequence that is known, as a
// replay begins where its sequence does, and the first one waits until a
// sequence would have been found.
//
//   each call:     if (trial.learns()) trial.Learn(op, now_ns);
//                  else if (trial.counts()) trial.Count(op);
//   now and then:  if (trial.MayBeDue(now_ns, ops, paths) &&
//                      trial.IsDue(usage)) {
//                    run what is pending; trial.Turn(usage);
//                  }
//
// Thread: its own. Tested by: tests/recorder/thread_trial_test.cpp
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "recorder/op_counts.h"
#include "recorder/schema_key.h"
#include "support/assert.h"
#include "support/policy.h"
#include "support/pseudo_random.h"

namespace tjit {

class ThreadTrial {
 public:
  enum class Phase : std::uint8_t {
    kIdle,    // nothing is measured
    kUsual,   // a window in which tjit does what it always does
    kBlind,   // a window in which it looks at nothing
    kResting  // it lost: nothing is looked at
  };
  // What the thread has done so far.
  struct Usage {
    std::uint64_t now_ns = 0;     // of a clock that does not stop
    std::uint64_t thread_ns = 0;  // the thread's processor time
    std::int64_t ops = 0;
    std::int64_t replayed = 0;
    std::int64_t longest = 0;  // ops of the longest sequence that it has met
    std::int64_t paths = 0;    // that it has recorded
  };

  // Of support/policy.def, which says why.
  static constexpr auto kOpsPerLook = policy::kThreadTrialOpsPerLook;
  static constexpr auto kOpsPerRareLook = policy::kThreadTrialOpsPerRareLook;
  static constexpr auto kFirstNs = policy::kThreadTrialFirstNs;
  static constexpr auto kFirstOps = policy::kThreadTrialFirstOps;
  static constexpr auto kWindowNs = policy::kThreadTrialWindowNs;
  static constexpr auto kOpsPerWindow = policy::kThreadTrialOpsPerWindow;
  static constexpr auto kTurnsPerWindow = policy::kThreadTrialTurnsPerWindow;
  static constexpr auto kMostReplayed = policy::kThreadTrialMostReplayed;
  static constexpr auto kLearning = policy::kThreadTrialLearning;
  static constexpr auto kWarmUp = policy::kThreadTrialWarmUp;
  static constexpr auto kEarlyPairs = policy::kThreadTrialEarlyPairs;
  static constexpr auto kPairs = policy::kThreadTrialPairs;
  static constexpr auto kLoss = policy::kThreadTrialLoss;
  static constexpr auto kRestNs = policy::kThreadTrialRestNs;
  static constexpr auto kLongestRestNs = policy::kThreadTrialLongestRestNs;
  static constexpr auto kRestOfTrial = policy::kThreadTrialRestOfTrial;
  static constexpr auto kNewPaths = policy::kThreadTrialNewPaths;
  static constexpr auto kAgainNs = policy::kThreadTrialAgainNs;
  static constexpr auto kAgainOfTrial = policy::kThreadTrialAgainOfTrial;

  // Tests only: windows of a few ops, in an order that is drawn, without end.
  static ThreadTrial OfTurns() {
    ThreadTrial trial;
    trial.only_turns_ = true;
    return trial;
  }

  Phase phase() const { return phase_; }
  // Windows take turns.
  bool counts() const {
    return phase_ == Phase::kUsual || phase_ == Phase::kBlind;
  }
  // In the first of them calls are weighed.
  bool learns() const { return counts() && windows_ < kLearning; }
  // Tjit looks at nothing.
  bool is_blind() const {
    return phase_ == Phase::kBlind || phase_ == Phase::kResting;
  }
  // Part of the time that tjit costs, of the last trial; below 0: it wins.
  double loss() const { return loss_; }
  // Trials lost.
  std::int64_t lost() const { return lost_; }
  std::int64_t lost_in_row() const { return lost_in_row_; }
  std::uint64_t rest_ns() const { return rest_ns_; }

  // A call at `now_ns`. REQUIRES: learns().
  void Learn(OpId op, std::uint64_t now_ns);
  // A call. REQUIRES: counts().
  void Count(OpId op) {
    TJIT_ASSERT(counts());
    work_ += WeightOf(op);
  }
  // IsDue() may say so.
  bool MayBeDue(std::uint64_t now_ns, std::int64_t ops,
                std::int64_t paths) const;
  // Turn() is to be called.
  bool IsDue(const Usage& usage);
  // A window begins or ends. THROWS bad_alloc, and nothing has changed then.
  // REQUIRES: IsDue(), and nothing is pending.
  void Turn(const Usage& usage);

 private:
  struct Weight {
    std::uint64_t ns = 0;
    std::uint32_t calls = 0;
  };

  void Start(const Usage& usage);
  void BeginWindow(const Usage& usage, bool is_blind);
  void EndWindow(const Usage& usage);
  double WeightOf(OpId op) const;
  bool Decide(const Usage& usage);
  void End(const Usage& usage, bool loses);

  Phase phase_ = Phase::kIdle;
  bool only_turns_ = false;
  Usage began_;  // of the window, or of what is looked at
  std::uint64_t look_at_ns_ = 0;
  // Behind a trial that was won: with so many paths it may be earlier.
  std::uint64_t early_at_ns_ = 0;
  std::int64_t early_paths_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t first_ops_ = 0;     // of the thread, when it was looked at first
  std::uint64_t trial_at_ns_ = 0;  // it began
  std::int64_t window_ops_ = 0;
  std::uint64_t rest_ns_ = 0;
  std::int64_t lost_ = 0, lost_in_row_ = 0;
  double loss_ = 0;

  // Of the trial that is under way.
  int windows_ = 0;
  bool is_second_blind_ = false;
  PseudoRandom random_;
  std::vector<Weight> weights_;  // by op
  Weight all_;
  OpId last_op_ = kNoOp;
  std::uint64_t last_ns_ = 0;
  double work_ = 0;                 // of the window
  double ns_per_work_[2] = {0, 0};  // of the pair: usual, blind
  std::vector<double> pairs_;       // logarithms of their quotients
};

}  // namespace tjit

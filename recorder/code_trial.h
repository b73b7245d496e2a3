// Whether compiled code pays: runs with it and without it take turns, so that
// a machine that slows down slows both, and their medians are compared.
//
// Code that was faster than the run before it in clearly more runs than it was
// slower pays: where the difference is clear, that is after a few runs. Else
// medians decide. On a busy machine one comparison says little where both take
// about as long: code that loses is tried again, and given up when it has lost
// three times running. Code that won once stays. Code that has paid for other
// sizes begins with a head start: runs that all have it, as sizes may come and
// go before a trial is over.
//
//   while (!trial.is_over()) { run with code if trial.wants_code(); Add(); }
//
// Thread: that of the segment. Tested by: tests/recorder/code_trial_test.cpp
#pragma once

#include <cstdint>

#include "recorder/run_times.h"
#include "support/assert.h"
#include "support/policy.h"

namespace tjit {

class CodeTrial {
 public:
  // `takes_turns` is false where every run is to have the code: it is compared
  // with the runs before it.
  explicit CodeTrial(bool takes_turns) : takes_turns_(takes_turns) {}

  // Before the first run with the code: so many runs have it.
  void GiveHeadStart(int runs) { head_start_ = runs; }
  // Before the first run with the code: the size may be gone soon.
  void Hurry() {
    if (!takes_turns_) return;  // the runs before are all that it has
    runs_ = kWarmUp - 1;
    without_.Clear();
  }

  bool takes_turns() const { return takes_turns_; }
  bool is_over() const { return is_over_; }
  bool wants_code() const {
    return !takes_turns_ || is_over_ || !has_turn_ || head_start_ > 0;
  }

  // A run that took `ns`. Before the code is there, too. Returns 1 if it had
  // the code and was faster than the one before without it, -1 if it was not, 0
  // if there is nothing to compare.
  int Add(bool with_code, std::uint64_t ns) {
    if (!with_code) {
      without_.Add(ns);
      last_without_ns_ = ns;
      has_turn_ = false;
      ++library_runs_;
      return 0;
    }
    has_turn_ = true;
    if (head_start_ > 0) {
      --head_start_;
      return 0;
    }
    if (is_over_) return 0;
    // The runs before were of another time.
    if (takes_turns_ && runs_ == 0 && lost_ == 0) without_.Clear();
    if (runs_++ < kWarmUp) return 0;
    with_.Add(ns);
    // The first run without it is a slow one.
    const bool is_compared = takes_turns_ && library_runs_ > 1;
    const int lead = !is_compared ? 0 : ns < last_without_ns_ ? 1 : -1;
    lead_ += lead;
    is_over_ = lead_ >= kLead && with_ns() < without_ns();
    if (is_over_ || runs_ < kWarmUp + kMeasured) return lead;
    runs_ = 0;
    is_over_ = with_ns() < without_ns() || ++lost_ == kMaxLost;
    return lead;
  }

  // Medians of the last comparison. Not inlined: gcc 12 then takes the sort in
  // Median() for one of more elements than there are.
  [[gnu::noinline]] std::uint64_t with_ns() const { return with_.Median(); }
  [[gnu::noinline]] std::uint64_t without_ns() const {
    return without_.Median();
  }
  // REQUIRES: is_over().
  bool pays() const {
    TJIT_ASSERT(is_over());
    return lost_ < kMaxLost;
  }

 private:
  static constexpr int kWarmUp = policy::kCodeTrialWarmUp;
  static constexpr int kMeasured = policy::kCodeTrialMeasured;
  static constexpr int kLead = policy::kCodeTrialLead;
  static constexpr int kMaxLost = policy::kCodeTrialMaxLost;

  bool takes_turns_;
  bool is_over_ = false;
  bool has_turn_ = false;  // of a run without the code
  int runs_ = 0;           // with the code, of this comparison
  int lost_ = 0;
  std::uint32_t library_runs_ = 0;
  // Runs with the code that were faster than the one before, less the others.
  int lead_ = 0;
  std::uint64_t last_without_ns_ = 0;
  int head_start_ = 0;  // runs that are left of it
  RunTimes with_, without_;
};

}  // namespace tjit

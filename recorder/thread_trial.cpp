#include "recorder/thread_trial.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "support/assert.h"
#include "support/policy.h"

namespace tjit {
namespace {

struct Mean {
  double value = 0;
  double error = 0;
};

// Without the tenth at either end, but one at least.
Mean TrimmedMean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t cut = std::max<std::size_t>(1, values.size() / 10);
  const std::size_t n = values.size() - 2 * cut;
  Mean mean;
  for (std::size_t i = cut; i < cut + n; ++i) mean.value += values[i];
  mean.value /= static_cast<double>(n);
  for (std::size_t i = cut; i < cut + n; ++i) {
    const double d = values[i] - mean.value;
    mean.error += d * d;
  }
  mean.error = std::sqrt(mean.error / static_cast<double>((n - 1) * n));
  return mean;
}

// With so many paths a verdict is old.
std::int64_t EarlyPaths(const ThreadTrial::Usage& usage) {
  return usage.paths + std::max(ThreadTrial::kNewPaths, usage.paths / 4);
}

}  // namespace

void ThreadTrial::Learn(OpId op, std::uint64_t now_ns) {
  TJIT_ASSERT(learns());
  if (last_op_ != kNoOp && last_op_ < OpCounts::kMaxOps) {
    Weight& w = weights_[last_op_];
    std::uint64_t took = now_ns - last_ns_;
    if (w.calls != 0) {
      took =
          std::min(took, policy::kThreadTrialMostTimes * (w.ns / w.calls + 1));
    }
    w.ns += took;
    ++w.calls;
    all_.ns += took;
    ++all_.calls;
  }
  last_op_ = op;
  last_ns_ = now_ns;
}

double ThreadTrial::WeightOf(OpId op) const {
  const Weight& w = op < OpCounts::kMaxOps && weights_[op].calls != 0
                        ? weights_[op]
                        : all_;
  return w.calls == 0 ? 1
                      : static_cast<double>(w.ns) / static_cast<double>(w.calls);
}

bool ThreadTrial::MayBeDue(std::uint64_t now_ns, std::int64_t ops,
                           std::int64_t paths) const {
  if (only_turns_) return ops >= began_.ops + window_ops_;
  if (phase_ == Phase::kIdle && paths >= early_paths_) {
    return now_ns >= early_at_ns_;
  }
  if (!counts()) return now_ns >= look_at_ns_;
  return now_ns >= began_.now_ns + kWindowNs && ops >= began_.ops + window_ops_;
}

bool ThreadTrial::IsDue(const Usage& usage) {
  if (!MayBeDue(usage.now_ns, usage.ops, usage.paths)) return false;
  if (only_turns_ || phase_ == Phase::kResting) return true;
  if (counts()) return usage.thread_ns >= began_.thread_ns + kWindowNs;
  if (look_at_ns_ == 0) {
    began_ = usage;
    first_ops_ = usage.ops;
    look_at_ns_ = usage.now_ns + kFirstNs;
    return false;
  }
  if (usage.ops < first_ops_ + kFirstOps) return false;
  const auto ops = static_cast<double>(usage.ops - began_.ops);
  const auto replayed = static_cast<double>(usage.replayed - began_.replayed);
  if (replayed <= kMostReplayed * ops) return true;
  began_ = usage;
  early_at_ns_ = usage.now_ns + kFirstNs;
  if (usage.paths >= early_paths_) early_paths_ = EarlyPaths(usage);
  look_at_ns_ = std::max(look_at_ns_, early_at_ns_);
  return false;
}

void ThreadTrial::Turn(const Usage& usage) {
  if (!counts()) {
    Start(usage);
  } else {
    EndWindow(usage);
  }
}

void ThreadTrial::Start(const Usage& usage) {
  std::vector<Weight> weights(OpCounts::kMaxOps);
  pairs_.reserve(kPairs + 1);  // no push_back() throws
  weights_ = std::move(weights);
  pairs_.clear();
  all_ = {};
  windows_ = 0;
  trial_at_ns_ = usage.now_ns;
  BeginWindow(usage, /*is_blind=*/true);
}

void ThreadTrial::BeginWindow(const Usage& usage, bool is_blind) {
  phase_ = is_blind ? Phase::kBlind : Phase::kUsual;
  began_ = usage;
  window_ops_ = std::max(kOpsPerWindow, kTurnsPerWindow * usage.longest);
  if (only_turns_) {
    window_ops_ = 1 + static_cast<std::int64_t>(random_.last() >> 58);
    if (!is_blind && random_.NextBool()) window_ops_ *= 16;
  }
  work_ = 0;
  last_op_ = kNoOp;
}

// Behind those that weigh and the one that warms up come pairs, one of each
// kind, whose order is drawn.
void ThreadTrial::EndWindow(const Usage& usage) {
  if (only_turns_) return BeginWindow(usage, random_.NextBool());
  const bool was_blind = phase_ == Phase::kBlind;
  const int n = windows_++ - kLearning - kWarmUp;
  if (n >= 0) {
    ns_per_work_[was_blind ? 1 : 0] =
        static_cast<double>(usage.thread_ns - began_.thread_ns) /
        std::max(work_, 1e-9);
    if (n % 2 == 1) {
      pairs_.push_back(std::log(ns_per_work_[0] / ns_per_work_[1]));
      if (Decide(usage)) return;
    }
  }
  if (n < -1) {
    BeginWindow(usage, /*is_blind=*/windows_ < kLearning);
  } else if ((n + 1) % 2 == 0) {
    is_second_blind_ = random_.NextBool();
    BeginWindow(usage, !is_second_blind_);
  } else {
    BeginWindow(usage, is_second_blind_);
  }
}

// True if the trial is over.
bool ThreadTrial::Decide(const Usage& usage) {
  if (pairs_.size() < kEarlyPairs) return false;
  const Mean mean = TrimmedMean(pairs_);
  const double least = std::log1p(kLoss);
  loss_ = std::expm1(mean.value);
  const double errors = policy::kThreadTrialEarlyErrors * mean.error;
  if (mean.value - errors > 0 && mean.value > least) {
    End(usage, /*loses=*/true);
  } else if (mean.value + errors < least) {
    End(usage, /*loses=*/false);
  } else if (pairs_.size() >= kPairs) {
    End(usage, mean.value > least &&
                   mean.value - policy::kThreadTrialErrors * mean.error > 0);
  } else {
    return false;
  }
  return true;
}

void ThreadTrial::End(const Usage& usage, bool loses) {
  weights_ = {};
  pairs_ = {};
  const std::uint64_t took = usage.now_ns - trial_at_ns_;
  if (!loses) {
    phase_ = Phase::kIdle;
    rest_ns_ = 0;
    lost_in_row_ = 0;
    began_ = usage;
    look_at_ns_ = usage.now_ns + std::max(kAgainNs, kAgainOfTrial * took);
    early_at_ns_ =
        usage.now_ns +
        std::max(kFirstNs, policy::kThreadTrialNewPathsOfTrial * took);
    early_paths_ = EarlyPaths(usage);
    return;
  }
  ++lost_;
  ++lost_in_row_;
  rest_ns_ = std::min(std::max({kRestNs, kRestOfTrial * took, 2 * rest_ns_}),
                      kLongestRestNs);
  phase_ = Phase::kResting;
  look_at_ns_ = usage.now_ns + rest_ns_;
}

}  // namespace tjit

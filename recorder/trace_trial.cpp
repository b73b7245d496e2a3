#include "recorder/trace_trial.h"

#include <utility>

namespace tjit {
namespace {

// While new code is tried every other run may be far slower than all before.
bool IsTime(std::int64_t entry, const RunTimes& replayed) {
  return entry >= TraceTrial::kFirst &&
         replayed.LowerQuartile() * static_cast<std::uint64_t>(entry) >=
             TraceTrial::kFirstNs;
}

// One takes at most four fifths of what the other takes.
bool IsClear(const RunTimes& faster, const RunTimes& slower) {
  return 5 * faster.Median() <= 4 * slower.Median();
}

}  // namespace

void TraceTrial::RecordUnseenRun(std::uint64_t ns) {
  // One of each block: a single block is not to outweigh all others.
  if (!times_each_run()) unseen_.Add(ns);
  if (ns < kHeavyNs || !runs_eagerly() || is_off()) return;
  heavy_run_ns_.store(ns, std::memory_order_relaxed);
  times_each_run_.store(true, std::memory_order_relaxed);
}

void TraceTrial::BeginEagerRun(std::int64_t entry, std::uint64_t now_ns,
                               const void* thread, const RunTimes& replayed) {
  if (is_busy_.exchange(true, std::memory_order_acquire)) return;
  if (state_.load(std::memory_order_relaxed) != State::kMeasuring ||
      !runs_eagerly()) {
    times_each_run_.store(false, std::memory_order_relaxed);
  } else if (!IsTakenOver()) {
    s_measured_at.store(now_ns, std::memory_order_relaxed);
    AddEagerRun(entry, now_ns, thread, replayed);
  }
  is_busy_.store(false, std::memory_order_release);
}

bool TraceTrial::BeginBlock(std::int64_t entry, std::uint64_t now_ns,
                            const void* thread, const RunTimes& replayed) {
  if (is_busy_.exchange(true, std::memory_order_acquire)) return false;
  const bool ends = Begin(entry, now_ns, thread, replayed);
  is_busy_.store(false, std::memory_order_release);
  return ends;
}

bool TraceTrial::Begin(std::int64_t entry, std::uint64_t now_ns,
                       const void* thread, const RunTimes& replayed) {
  switch (state_.load(std::memory_order_relaxed)) {
    case State::kPays:
      return false;
    case State::kOff:
      if (entry < next_.load(std::memory_order_relaxed)) return false;
      Start(entry, now_ns, thread);
      return false;
    case State::kWaiting:
      if (IsTime(entry, replayed)) Start(entry, now_ns, thread);
      return false;
    case State::kMeasuring:
      return Measure(entry, now_ns, thread, replayed);
  }
  return false;
}

void TraceTrial::Start(std::int64_t entry, std::uint64_t now_ns,
                       const void* thread) {
  const TraceTrial* other = s_measuring.load(std::memory_order_relaxed);
  if (other != nullptr &&
      now_ns < s_measured_at.load(std::memory_order_relaxed) + kStaleNs) {
    return;
  }
  if (!s_measuring.compare_exchange_strong(other, this)) return;
  s_measured_at.store(now_ns, std::memory_order_relaxed);
  state_.store(State::kMeasuring, std::memory_order_relaxed);
  runs_eagerly_.store(false, std::memory_order_relaxed);
  thread_ = thread;
  entry_ = entry;
  ns_ = now_ns;
  blocks_ = 0;
  lost_ = 0;
  is_counted_ = false;
  sure_run_ns_ = 0;
  replay_.Clear();
  eager_.Clear();
}

bool TraceTrial::IsTakenOver() {
  if (s_measuring.load(std::memory_order_relaxed) == this) return false;
  runs_eagerly_.store(false, std::memory_order_relaxed);
  times_each_run_.store(false, std::memory_order_relaxed);
  state_.store(State::kWaiting, std::memory_order_relaxed);
  return true;
}

void TraceTrial::BeginRunsOfBlock() {
  times_each_run_.store(false, std::memory_order_relaxed);
  heavy_run_ns_.store(0, std::memory_order_relaxed);
  run_entry_ = entry_;
  run_ns_ = ns_;
  slow_runs_ = 0;
  slow_ns_ = 0;
}

void TraceTrial::AddEagerRun(std::int64_t entry, std::uint64_t now_ns,
                             const void* thread, const RunTimes& replayed) {
  const std::uint64_t ns = now_ns - run_ns_;
  // A run that was left half-way has none.
  const std::uint64_t own_ns =
      heavy_run_ns_.exchange(0, std::memory_order_relaxed);
  const bool is_slow = thread == thread_ && entry == run_entry_ + 1 &&
                       own_ns >= kSureTimes * replayed.Median() &&
                       ns * kBlock >= kSureTimes * replay_block_ns_;
  run_entry_ = entry;
  run_ns_ = now_ns;
  if (!is_slow) {
    slow_runs_ = 0;
    slow_ns_ = 0;
    return;
  }
  if (++slow_runs_ == 1) slow_times_.Clear();
  slow_ns_ += ns;
  slow_times_.Add(own_ns);
  if (slow_runs_ < kSureRuns || slow_ns_ < kSureNs) return;
  sure_run_ns_ = slow_ns_ / slow_runs_;
  runs_eagerly_.store(false, std::memory_order_relaxed);
  times_each_run_.store(false, std::memory_order_relaxed);
  entry_ = -1;  // the block that is cut is not a whole one
}

bool TraceTrial::IsNextEager() {
  if (blocks_ % 2 == 0) {
    is_second_eager_ = random_.NextBool();
    return !is_second_eager_;
  }
  return is_second_eager_;
}

bool TraceTrial::Measure(std::int64_t entry, std::uint64_t now_ns,
                         const void* thread, const RunTimes& replayed) {
  const bool was_eager = runs_eagerly();
  const bool is_whole = thread == thread_ && entry == entry_ + kBlock;
  const std::uint64_t ns = now_ns - ns_;
  thread_ = thread;
  entry_ = entry;
  ns_ = now_ns;
  BeginRunsOfBlock();
  if (IsTakenOver()) return false;
  s_measured_at.store(now_ns, std::memory_order_relaxed);
  if (!is_whole) {  // runs of several threads, or of none, or it was cut
    runs_eagerly_.store(false, std::memory_order_relaxed);
    is_counted_ = false;
    return false;
  }
  if (!was_eager) {
    replay_block_ns_ = ns;
    if (std::exchange(sure_run_ns_, 0) * kBlock >= kSureTimes * ns) {
      unseen_.CopyFrom(slow_times_);
      return Decide(entry, /*loses=*/false);
    }
  }
  if (std::exchange(is_counted_, true)) {
    (was_eager ? eager_ : replay_).Add(ns);
    ++blocks_;
  }
  runs_eagerly_.store(IsNextEager(), std::memory_order_relaxed);
  if (blocks_ == 2 * kEarly && lost_ == 0) {
    if (IsClear(replay_, eager_) || IsClear(replayed, unseen_)) {
      return Decide(entry, /*loses=*/false);
    }
    if (IsClear(eager_, replay_) && IsClear(unseen_, replayed)) {
      return Decide(entry, /*loses=*/true);
    }
  }
  if (blocks_ < 2 * kBlocks) return false;
  blocks_ = 0;
  // Three percent more than eager: less is noise.
  const bool loses =
      100 * replay_.LowerQuartile() > 103 * eager_.LowerQuartile() &&
      replayed.LowerQuartile() > unseen_.LowerQuartile();
  if (loses && ++lost_ < kMaxLost) return false;
  return Decide(entry, loses);
}

bool TraceTrial::Decide(std::int64_t entry, bool loses) {
  state_.store(loses ? State::kOff : State::kPays, std::memory_order_relaxed);
  runs_eagerly_.store(loses, std::memory_order_relaxed);
  times_each_run_.store(false, std::memory_order_relaxed);
  next_.store(entry + kAgain, std::memory_order_relaxed);
  const TraceTrial* self = this;
  s_measuring.compare_exchange_strong(self, nullptr);
  return loses;
}

}  // namespace tjit

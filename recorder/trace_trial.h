// Whether replaying a sequence pays: blocks of runs that are replayed and
// blocks that run eagerly take turns, so that a machine that slows down slows
// both. Compared are the times from run to run, with whatever the program does
// in between, for that is what it waits for, and those of single runs, as it
// may wait for other things: it loses only if it loses both. Lower quartiles,
// and blocks in an order that has no period: what comes every so many runs
// decides nothing.
//
// Each sequence is tried, one at a time, once it has run for long: by then it is
// mostly decided about its compiled code (code_trial.h). Where three blocks of
// each kind show that it is clearly faster, or clearly slower, that is all. One
// that loses three comparisons running runs eagerly from then on, and is tried
// again after many more runs.
//
// An eager run is one that nobody follows (ThreadState::RunUnseen): those before
// a sequence was hot carried the recorder's own work, and would be beaten by
// what a program without tjit beats.
//
// Thread: any. Tested by: tests/recorder/trace_trial_test.cpp,
// tests/runtime/thread/trace_trial_test.cpp
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "recorder/run_times.h"
#include "support/policy.h"
#include "support/pseudo_random.h"

namespace tjit {

class TraceTrial {
 public:
  static constexpr std::int64_t kBlock = policy::kTraceTrialBlock;  // runs
  // Replays before the first trial, and the time that they took.
  static constexpr std::int64_t kFirst = policy::kTraceTrialFirst;
  static constexpr std::uint64_t kFirstNs = policy::kTraceTrialFirstNs;
  static constexpr std::int64_t kAgain = policy::kTraceTrialAgain;  // runs
  static constexpr int kBlocks = policy::kTraceTrialBlocks;  // of each kind
  static constexpr int kEarly = policy::kTraceTrialEarly;
  static constexpr int kMaxLost = policy::kTraceTrialMaxLost;

  // The run to come, and those until the next block, are to be eager ones.
  bool runs_eagerly() const {
    return runs_eagerly_.load(std::memory_order_relaxed);
  }
  // It was given up.
  bool is_off() const {
    return state_.load(std::memory_order_relaxed) == State::kOff;
  }
  // ns a run, of the last comparison; 0: there was none.
  std::uint64_t replay_ns() const { return replay_.LowerQuartile() / kBlock; }
  std::uint64_t eager_ns() const { return eager_.LowerQuartile() / kBlock; }
  // A run from its first op to the end, of eager ones that nobody followed; 0:
  // there was none.
  std::uint64_t eager_run_ns() const { return unseen_.Median(); }
  void RecordUnseenRun(std::uint64_t ns) { unseen_.Add(ns); }

  // Before run number `entry`, a multiple of kBlock, at `now_ns`, by `thread`.
  // `replayed`: run times so far. True if it is given up now.
  bool BeginBlock(std::int64_t entry, std::uint64_t now_ns, const void* thread,
                  const RunTimes& replayed) {
    if (is_busy_.exchange(true, std::memory_order_acquire)) return false;
    const bool ends = Begin(entry, now_ns, thread, replayed);
    is_busy_.store(false, std::memory_order_release);
    return ends;
  }

  // Some sequence is tried just now.
  static bool IsUnderWay(std::uint64_t now_ns) {
    return s_measuring.load(std::memory_order_relaxed) != nullptr &&
           now_ns < s_measured_at.load(std::memory_order_relaxed) + kStaleNs;
  }

  // What was decided.
  void CopyFrom(const TraceTrial& other) {
    const State state = other.state_.load(std::memory_order_relaxed);
    if (state == State::kMeasuring) return;
    state_.store(state, std::memory_order_relaxed);
    next_.store(other.next_.load(std::memory_order_relaxed),
                std::memory_order_relaxed);
    runs_eagerly_.store(state == State::kOff, std::memory_order_relaxed);
    replay_.CopyFrom(other.replay_);
    eager_.CopyFrom(other.eager_);
    unseen_.CopyFrom(other.unseen_);
  }

 private:
  enum class State : std::uint8_t { kWaiting, kMeasuring, kPays, kOff };

  // The trial that is under way, and when it began its last block: one that has
  // not for a second is over.
  static inline std::atomic<const TraceTrial*> s_measuring{nullptr};
  static inline std::atomic<std::uint64_t> s_measured_at{0};
  static constexpr std::uint64_t kStaleNs = policy::kTraceTrialStaleNs;

  bool Begin(std::int64_t entry, std::uint64_t now_ns, const void* thread,
             const RunTimes& replayed) {
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
  // While new code is tried every other run may be far slower than all before.
  static bool IsTime(std::int64_t entry, const RunTimes& replayed) {
    return entry >= kFirst &&
           replayed.LowerQuartile() * static_cast<std::uint64_t>(entry) >=
               kFirstNs;
  }
  // One takes at most four fifths of what the other takes.
  static bool IsClear(const RunTimes& faster, const RunTimes& slower) {
    return 5 * faster.Median() <= 4 * slower.Median();
  }
  void Start(std::int64_t entry, std::uint64_t now_ns, const void* thread) {
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
    replay_.Clear();
    eager_.Clear();
  }
  // Blocks come in pairs, one of each kind, whose order is drawn.
  bool IsNextEager() {
    if (blocks_ % 2 == 0) {
      is_second_eager_ = random_.NextBool();
      return !is_second_eager_;
    }
    return is_second_eager_;
  }
  bool Measure(std::int64_t entry, std::uint64_t now_ns, const void* thread,
               const RunTimes& replayed) {
    const bool was_eager = runs_eagerly();
    const bool is_whole = thread == thread_ && entry == entry_ + kBlock;
    const std::uint64_t ns = now_ns - ns_;
    thread_ = thread;
    entry_ = entry;
    ns_ = now_ns;
    if (s_measuring.load(std::memory_order_relaxed) != this) {  // it took long
      runs_eagerly_.store(false, std::memory_order_relaxed);
      state_.store(State::kWaiting, std::memory_order_relaxed);
      return false;
    }
    s_measured_at.store(now_ns, std::memory_order_relaxed);
    if (!is_whole) {  // runs of several threads, or of none
      runs_eagerly_.store(false, std::memory_order_relaxed);
      is_counted_ = false;
      return false;
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
  bool Decide(std::int64_t entry, bool loses) {
    state_.store(loses ? State::kOff : State::kPays, std::memory_order_relaxed);
    runs_eagerly_.store(loses, std::memory_order_relaxed);
    next_.store(entry + kAgain, std::memory_order_relaxed);
    s_measuring.store(nullptr, std::memory_order_relaxed);
    return loses;
  }

  std::atomic<bool> runs_eagerly_{false};
  std::atomic<State> state_{State::kWaiting};
  std::atomic<bool> is_busy_{false};
  std::atomic<std::int64_t> next_{0};  // run with which it is tried again
  // Guarded by is_busy_.
  const void* thread_ = nullptr;
  std::int64_t entry_ = 0;  // and the time, of the block that runs
  std::uint64_t ns_ = 0;
  int blocks_ = 0;  // of this comparison
  int lost_ = 0;
  bool is_counted_ = false;       // the block that runs
  bool is_second_eager_ = false;  // of the pair
  PseudoRandom random_;
  RunTimes replay_, eager_;  // of blocks
  RunTimes unseen_;          // of eager runs
};

}  // namespace tjit

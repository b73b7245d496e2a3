// Whether replaying a sequence pays: blocks of runs that are replayed and
// blocks that run eagerly take turns, so that a machine that slows down slows
// both. What is compared is the time from run to run, with whatever the program
// does in between, for that is what it waits for.
//
// Most sequences are clearly faster than the eager runs before they were hot,
// and are not tried. The rest are tried once they have run often or for long:
// until then it may be decided about their compiled code (code_trial.h). One
// that loses three comparisons running is followed, but not deferred, and tried
// again after many more runs.
//
// Thread: any; one of them measures, whose runs are not mixed with others'.
// Tested by: tests/recorder/trace_trial_test.cpp,
// tests/runtime/trace_trial_test.cpp
#pragma once

#include <atomic>
#include <cstdint>

#include "recorder/run_times.h"

namespace tjit {

class TraceTrial {
 public:
  static constexpr std::int64_t kBlock = 16;  // runs
  // Runs before the first trial, or so many and a time.
  static constexpr std::int64_t kFirst = 4096;
  static constexpr std::int64_t kFirstLong = 256;
  static constexpr std::uint64_t kLongNs = 1'000'000'000;
  static constexpr std::int64_t kAgain = std::int64_t{1} << 20;  // runs
  static constexpr int kBlocks = 15;  // of each kind: all that RunTimes keeps
  static constexpr int kEarly = 3;    // where that is enough
  static constexpr int kMaxLost = 3;

  // The run to come, and those until the next block, are to be eager ones.
  bool runs_eagerly() const {
    return runs_eagerly_.load(std::memory_order_relaxed);
  }
  // It was given up.
  bool is_off() const {
    return state_.load(std::memory_order_relaxed) == State::kOff;
  }
  // ns a run, of the last comparison; 0: there was none.
  std::uint64_t replay_ns() const { return replay_.Median() / kBlock; }
  std::uint64_t eager_ns() const { return eager_.Median() / kBlock; }

  // Before run number `entry`, a multiple of kBlock, at `now_ns`, by `thread`.
  // `replayed`, `eager`: run times so far. True if it is given up now.
  bool BeginBlock(std::int64_t entry, std::uint64_t now_ns, const void* thread,
                  const RunTimes& replayed, const RunTimes& eager) {
    if (is_busy_.exchange(true, std::memory_order_acquire)) return false;
    const bool ends = Begin(entry, now_ns, thread, replayed, eager);
    is_busy_.store(false, std::memory_order_release);
    return ends;
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
  }

 private:
  enum class State : std::uint8_t { kWaiting, kMeasuring, kPays, kOff };

  bool Begin(std::int64_t entry, std::uint64_t now_ns, const void* thread,
             const RunTimes& replayed, const RunTimes& eager) {
    switch (state_.load(std::memory_order_relaxed)) {
      case State::kPays:
        return false;
      case State::kOff:
        if (entry < next_.load(std::memory_order_relaxed)) return false;
        Start(entry, now_ns, thread);
        return false;
      case State::kWaiting:
        if (!IsTime(entry, replayed)) return false;
        if (IsClear(replayed, eager)) {
          state_.store(State::kPays, std::memory_order_relaxed);
        } else {
          Start(entry, now_ns, thread);
        }
        return false;
      case State::kMeasuring:
        return Measure(entry, now_ns, thread);
    }
    return false;
  }
  static bool IsTime(std::int64_t entry, const RunTimes& replayed) {
    if (entry >= kFirst) return true;
    return entry >= kFirstLong &&
           replayed.Median() * static_cast<std::uint64_t>(entry) >= kLongNs;
  }
  static bool IsClear(const RunTimes& replayed, const RunTimes& eager) {
    return 5 * replayed.Median() <= 4 * eager.Median();
  }
  void Start(std::int64_t entry, std::uint64_t now_ns, const void* thread) {
    state_.store(State::kMeasuring, std::memory_order_relaxed);
    runs_eagerly_.store(false, std::memory_order_relaxed);
    thread_ = thread;
    entry_ = entry;
    ns_ = now_ns;
    blocks_ = 0;
    lost_ = 0;
  }
  bool Measure(std::int64_t entry, std::uint64_t now_ns, const void* thread) {
    const bool was_eager = runs_eagerly();
    const bool is_whole = thread == thread_ && entry == entry_ + kBlock;
    const std::uint64_t ns = now_ns - ns_;
    thread_ = thread;
    entry_ = entry;
    ns_ = now_ns;
    if (!is_whole) return false;  // the same once more
    runs_eagerly_.store(!was_eager, std::memory_order_relaxed);
    (was_eager ? eager_ : replay_).Add(ns);
    if (++blocks_ < 2 * kBlocks &&
        (blocks_ != 2 * kEarly || !IsClear(replay_, eager_))) {
      return false;
    }
    blocks_ = 0;
    // Three percent more than eager: less is noise.
    const bool loses = 100 * replay_.Median() > 103 * eager_.Median();
    if (loses && ++lost_ < kMaxLost) return false;
    state_.store(loses ? State::kOff : State::kPays, std::memory_order_relaxed);
    runs_eagerly_.store(loses, std::memory_order_relaxed);
    next_.store(entry + kAgain, std::memory_order_relaxed);
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
  RunTimes replay_, eager_;  // of blocks
};

}  // namespace tjit

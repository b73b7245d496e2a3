// Whether replaying a sequence pays: blocks of runs that are replayed and
// blocks that run eagerly take turns, so that a machine that slows down slows
// both. Compared are the times from run to run, with whatever the program does
// in between, for that is what it waits for, and those of single runs, as it
// may wait for other things: it loses only if it loses both. Lower quartiles,
// and blocks in an order that has no period: what comes every so many runs
// decides nothing.
//
// Each sequence is tried, one at a time, once it has run for long: by then it
// is mostly decided about its compiled code (code_trial.h). Where three blocks
// of each kind show that it is clearly faster, or clearly slower, that is all.
// One that loses three comparisons running runs eagerly from then on, and is
// tried again after many more runs.
//
// Three blocks of runs that take 100 ms eagerly and 4 replayed would hold up
// the program for five seconds. So where eager runs are heavy each one is
// timed. A few in a row that take twice as long as replayed ones end their
// block, and the trial, if the next replayed block is as much faster still.
//
// An eager run is one that nobody follows (ThreadState::RunUnseen): those
// before a sequence was hot carried the recorder's own work, and would be
// beaten by what a program without tjit beats.
//
// Thread: any. Tested by: tests/recorder/trace_trial_test.cpp,
// tests/runtime/thread/trace_trial_test.cpp
#pragma once

#include <atomic>
#include <cstdint>

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
  static constexpr auto kHeavyNs = policy::kTraceTrialHeavyNs;
  static constexpr auto kSureRuns = policy::kTraceTrialSureRuns;
  static constexpr auto kSureNs = policy::kTraceTrialSureNs;
  static constexpr auto kSureTimes = policy::kTraceTrialSureTimes;

  // The run to come, and those until the next block, are to be eager ones. A
  // block may end early, see BeginEagerRun().
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
  // Such a run took `ns`. One of each block is kept; behind a heavy one each
  // run of the block is timed.
  void RecordUnseenRun(std::uint64_t ns);

  // Eager runs are so heavy that each begins with BeginEagerRun().
  bool times_each_run() const {
    return times_each_run_.load(std::memory_order_relaxed);
  }
  // Before run number `entry`, at `now_ns`, by `thread`, where each is timed.
  // The block may be over then, and the run is a replay. `replayed`: run times
  // so far.
  void BeginEagerRun(std::int64_t entry, std::uint64_t now_ns,
                     const void* thread, const RunTimes& replayed);

  // Before run number `entry`, a multiple of kBlock, at `now_ns`, by `thread`.
  // True if it is given up now.
  bool BeginBlock(std::int64_t entry, std::uint64_t now_ns, const void* thread,
                  const RunTimes& replayed);

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

  // The trial that is under way, and when it began its last block or timed run:
  // one that has not for a second is over.
  static inline std::atomic<const TraceTrial*> s_measuring{nullptr};
  static inline std::atomic<std::uint64_t> s_measured_at{0};
  static constexpr std::uint64_t kStaleNs = policy::kTraceTrialStaleNs;

  bool Begin(std::int64_t entry, std::uint64_t now_ns, const void* thread,
             const RunTimes& replayed);
  void Start(std::int64_t entry, std::uint64_t now_ns, const void* thread);
  // Another sequence is tried: this trial took too long.
  bool IsTakenOver();
  void BeginRunsOfBlock();
  void AddEagerRun(std::int64_t entry, std::uint64_t now_ns, const void* thread,
                   const RunTimes& replayed);
  // Blocks come in pairs, one of each kind, whose order is drawn.
  bool IsNextEager();
  bool Measure(std::int64_t entry, std::uint64_t now_ns, const void* thread,
               const RunTimes& replayed);
  bool Decide(std::int64_t entry, bool loses);

  std::atomic<bool> runs_eagerly_{false};
  std::atomic<bool> times_each_run_{false};
  std::atomic<std::uint64_t> heavy_run_ns_{0};  // of the eager run before
  std::atomic<State> state_{State::kWaiting};
  std::atomic<bool> is_busy_{false};
  std::atomic<std::int64_t> next_{0};  // run with which it is tried again
  // Guarded by is_busy_.
  const void* thread_ = nullptr;
  std::int64_t entry_ = 0;  // and the time, of the block that runs
  std::uint64_t ns_ = 0;
  std::uint64_t replay_block_ns_ = 0;  // of the last replayed block
  std::int64_t run_entry_ = 0;  // and the time, of the eager run that runs
  std::uint64_t run_ns_ = 0;
  std::uint64_t slow_runs_ = 0;  // in a row in this block
  std::uint64_t slow_ns_ = 0;
  RunTimes slow_times_;            // theirs, from the first op to the end
  std::uint64_t sure_run_ns_ = 0;  // of those that ended a block; 0: none did
  int blocks_ = 0;  // of this comparison
  int lost_ = 0;
  bool is_counted_ = false;       // the block that runs
  bool is_second_eager_ = false;  // of the pair
  PseudoRandom random_;
  RunTimes replay_, eager_;  // of blocks
  RunTimes unseen_;          // of eager runs
};

}  // namespace tjit

// The time that replaying a sequence has won, from the rows of an instruction
// log, as `tjit explain` has it: what a run takes less, by medians, times the
// replays.
//
//   won.Add({"Finished", row.details, row.time_ns})     // each DETECT row
//   won.is_known(), won.won_ns()
//
// Rows of several threads may come in any order. What clear() and eviction made
// the process forget counts as it was then.
// Thread: one. Tested by: tests/acceptance/top_test.py
#pragma once

#include <cstdint>
#include <string>

namespace tjit::tools {

// What a row of DETECT says of it. kNone: another row.
struct WonRow {
  enum class Kind { kNone, kTimed, kFinished, kForgotten };

  WonRow() = default;
  WonRow(const std::string& command, const std::string& details);

  Kind kind = Kind::kNone;
  std::int64_t eager_ns = 0, replay_ns = 0, replays = 0;
  bool is_beginning = false;  // the log began then, and the program before
};

class WonTime {
 public:
  void Add(const WonRow& row, std::uint64_t time_ns);
  // What another reader has of the same sequence.
  void Add(const WonTime& other);

  // A run of each kind was measured.
  bool is_known() const { return is_timed() || earlier_ns_ != 0; }
  // Negative if time was lost.
  double won_ns() const;
  // Of the last row; 0: there is none.
  std::int64_t eager_ns() const { return eager_ns_; }
  std::int64_t replay_ns() const { return replay_ns_; }
  std::int64_t replays() const;

 private:
  bool is_timed() const { return eager_ns_ != 0 && replay_ns_ != 0; }

  std::int64_t eager_ns_ = 0, replay_ns_ = 0;
  std::uint64_t timed_at_ns_ = 0;
  std::int64_t finished_ = 0;  // rows
  std::int64_t said_ = 0;      // replays, by the last row that has times
  std::int64_t before_ = 0;    // before the log began
  double earlier_ns_ = 0;      // won before it was forgotten
};

}  // namespace tjit::tools

// What a timeline shows of one log: its length, sums, and for each thread what
// was done when, on a grid as fine as the picture.
//
// A slice that is at least as wide as a column of the grid is kept as it is. Of
// shorter ones a column has the time by kind, so that a log of any length needs
// the memory of the picture. Two passes over the log: Measure(), which says how
// long it is, then Fill().
// Thread: one. Tested by: tests/acceptance/timeline_test.py
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "recorder/instruction_log_reader.h"
#include "tools/tjit/log_file.h"
#include "tools/tjit/op_kinds.h"
#include "tools/tjit/track_layout.h"

namespace tjit::tools {

using TimesNs = std::array<std::uint64_t, kSliceKinds>;

// A slice that has room for itself. Times count from the first row drawn.
struct WideSlice {
  SliceKind kind;
  std::uint64_t begin_ns, end_ns;
  int depth;
  std::string label, details;
};

struct TimelineLane {
  std::string name;
  std::vector<WideSlice> wide;
  // Of slices that are enclosed by none, and of those within others.
  std::vector<TimesNs> columns, inner_columns;
};

class TimelineData {
 public:
  // What is drawn: the last ops or seconds; all if nothing is given.
  explicit TimelineData(const Last& last) : last_(last) {}

  // How long it is, and the sums.
  void Measure(const std::string& path, InstructionLog* log);
  // `column_ns`: the width of a column. REQUIRES: Measure(), and that `log` was
  // opened anew.
  void Fill(InstructionLog* log, std::uint64_t column_ns, int columns);

  const std::string& program() const { return program_; }
  // From the first row drawn to the end of the last slice.
  std::uint64_t wall_ns() const { return end_ns_ - begin_ns_; }
  std::uint64_t ops() const { return ops_; }
  std::uint64_t deferred() const { return deferred_; }
  std::uint64_t exits() const { return exits_; }
  // All threads; a slice within another one counts as itself and for that one.
  const TimesNs& times() const { return times_; }
  // The threads, and last the compiler's tracks.
  std::vector<const TimelineLane*> lanes() const;

 private:
  void ForEachDrawn(
      InstructionLog* log,
      const std::function<void(const LogRow&, const Placed&)>& draw);
  SliceKind KindOf(const LogRow& row);
  void AddSlice(const LogRow& row, const Placed& at, std::uint64_t column_ns,
                int columns);

  const Last last_;
  Start start_;
  std::string program_;
  bool has_rows_ = false;
  std::uint64_t begin_ns_ = 0, end_ns_ = 0;
  std::uint64_t ops_ = 0, deferred_ = 0, exits_ = 0;
  TimesNs times_{};
  TrackLayout layout_;
  std::map<int, TimelineLane> lanes_;       // by track
  std::map<std::string, SliceKind> kinds_;  // of ops, by name
};

}  // namespace tjit::tools

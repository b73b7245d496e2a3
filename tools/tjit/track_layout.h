// Lays the rows of an instruction log out on tracks, one for each thread and
// some for the compiler: where a slice begins and ends, so that two slices of a
// track nest or are disjoint.
//
//   TrackLayout layout;
//   while (log.Next(false, &row)) {
//     const Placed at = layout.Place(row);
//     ...  // row begins at at.begin_ns on track at.track
//   }
//
// What a log says is not quite that. A row has the time at which it began in
// ns, and the time that it took as a float, so ends are rounded: they are moved
// to where the enclosing slice ends. A row of tier 2 says when code was picked
// up by a thread and how long another one, the compiler's, worked on it: it has
// a track of its own and ends where it was picked up. A deferred op has a
// moment, of which a slice is made, kMinSliceNs long. A row that never ended
// goes on until the log does.
//
// Memory: a few slices a track, whatever the length of the log.
// Thread: one. Tested by: tests/acceptance/timeline_test.py
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "recorder/instruction_log_reader.h"

namespace tjit::tools {

inline constexpr std::uint64_t kMinSliceNs = 1;

// How a row is drawn.
enum class Shape { kSlice, kInstant };
Shape ShapeOf(const LogRow& row);

// Where.
struct Placed {
  int track = 0;
  std::uint64_t begin_ns = 0, end_ns = 0;
  int depth = 0;         // how many slices enclose it
  bool is_open = false;  // it ends at last_ns() of the whole log
};

struct Track {
  std::string name;  // "MAIN", "T1", "WORKER", "COMPILER"
  bool is_compiler = false;
};

class TrackLayout {
 public:
  // REQUIRES: rows come in the order of InstructionLog::Next().
  Placed Place(const LogRow& row);
  const std::vector<Track>& tracks() const { return tracks_; }
  // The end of all slices so far.
  std::uint64_t last_ns() const { return last_ns_; }

 private:
  struct Slice {
    std::uint64_t begin_ns, end_ns;
  };
  struct Lane {
    std::vector<Slice> open;     // each within the one before
    std::deque<Slice> finished;  // the last ones, for rows that come late
    std::uint64_t last_ns = 0;
    std::uint64_t finished_ns = 0;  // the end of the last one
  };

  int TrackOf(const LogRow& row);
  int NewTrack(const std::string& name, bool is_compiler);
  // A track of the compiler that is free from then on.
  int CompilerTrack(std::uint64_t begin_ns);
  // A slice on the lane; `placed` has what the row says of its time.
  void Append(Lane* lane, Placed* placed);
  // One that was written when it ended, behind what happened within it. False
  // if it began before what is known of the lane.
  bool Insert(Lane* lane, Placed* placed);
  // Within the last one that is open.
  void Push(Lane* lane, Placed* placed);
  void Pop(Lane* lane);

  std::vector<Track> tracks_;
  std::vector<Lane> lanes_;
  std::map<std::pair<std::uint32_t, std::string>, int> track_of_;
  std::vector<int> compilers_;
  std::uint64_t last_ns_ = 0;
};

}  // namespace tjit::tools

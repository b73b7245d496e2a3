// An instruction log in the Trace Event Format, which Perfetto and
// chrome://tracing open: JSON of events, times in microseconds.
//
//   an op, REPLAY, DRAIN, WAIT, COMPILE Complete   a slice ("X")
//   DETECT, EXIT, any other COMPILE          an instant ("i")
//   a deferred op and the REPLAY or DRAIN that ran it   an arrow ("s", "f")
//
// So each row of the log is one slice or one instant. A REPLAY or DRAIN of N
// ops ran the last N ops that its thread had deferred; where another thread
// asked for them, those of the one thread that had N of them.
//
// The trace is written as the rows come. Kept are the ops that wait for their
// execution, and rows that have not ended.
// Thread: one. Tested by: tests/acceptance/timeline_test.py
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "recorder/instruction_log_reader.h"
#include "tools/tjit/json.h"
#include "tools/tjit/output_text.h"
#include "tools/tjit/track_layout.h"

namespace tjit::tools {

inline constexpr FileKind kChromeFile{"Chrome trace",
                                      "{\"displayTimeUnit\":\"ns\","};

class ChromeTrace {
 public:
  // `out` is open, and outlives this.
  ChromeTrace(const InstructionLog& log, OutputText* out);
  // REQUIRES: all rows of the log come, in the order of the log; `is_drawn`
  // says which of them are wanted.
  void Add(const LogRow& row, bool is_drawn);
  // The end of the file; the caller closes it.
  void Finish();

 private:
  // A deferred op that has not run yet.
  struct Pending {
    int track;
    std::uint64_t at_ns;
    bool is_drawn;
  };
  struct Unfinished {
    Json event;
    std::uint64_t begin_ns;
  };

  void Write(const Json& event) { WriteText(JsonText(event)); }
  void WriteText(const std::string& event);
  // Ops and arrows are nearly all events: their text is made without Json.
  void WriteOp(const LogRow& row, const Placed& at);
  void WriteArrow(const char* end, int track, std::uint64_t at_ns);
  // A text as JSON has it. Few texts come again and again.
  const std::string& Quoted(const std::string& text);
  void NameTracks();
  void AddArrows(const LogRow& row, const Placed& at, bool is_drawn);
  std::vector<Pending>* PendingOf(int track, std::uint64_t count);

  OutputText* const out_;
  const std::uint32_t pid_;
  TrackLayout layout_;
  std::size_t named_tracks_ = 0;
  std::map<int, std::vector<Pending>> pending_;  // by track
  std::vector<Unfinished> unfinished_;
  std::uint64_t arrows_ = 0;
  std::unordered_map<std::string, std::string> quoted_;
  bool has_events_ = false;
};

}  // namespace tjit::tools

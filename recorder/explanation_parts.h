// What a report of a run is made of: figures and sentences about an
// Explanation, which explanation.cpp prints as text and tools/tjit/ as a page.
//
//   const Gains gains = GainsOf(explanation);
//   Print(DurationText(gains.won_ns), gains.factor());
//
// Nothing here is kept: each function reads its argument and returns a value.
// Tested by: tests/recorder/explanation_test.cpp,
// tests/acceptance/report_test.py
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "recorder/explanation.h"

namespace tjit {

// What replaying won, by medians of measured runs.
struct Gains {
  std::int64_t won_ns = 0;    // negative if time was lost
  std::int64_t eager_ns = 0;  // that the same runs take eagerly
  std::int64_t replayed = 0;  // sequences
  std::int64_t unknown = 0;   // of these, sequences that were not measured

  bool is_known() const { return replayed > unknown; }
  // REQUIRES: is_known().
  double factor() const {
    return static_cast<double>(eager_ns) /
           static_cast<double>(eager_ns - won_ns);
  }
};
Gains GainsOf(const Explanation& explanation);

// Time in complete replays of all sequences, by medians of measured runs.
struct TimeInReplays {
  std::int64_t runs_ns = 0;
  std::int64_t executed_ns = 0;  // of these: deferred ops ran
};
TimeInReplays TimeInReplaysOf(const Explanation& explanation);

// Something that stood against more, and what to do about it ("" for nothing).
struct Obstacle {
  std::string what;
  std::string remedy;
};
std::vector<Obstacle> ObstaclesOf(const Explanation& explanation);

// "1.5 ms", without the sign.
std::string DurationText(std::int64_t ns);
// "12.5 %"; of nothing "0.0 %".
std::string PercentText(std::int64_t part, std::int64_t whole);
// "once", "3 times".
std::string TimesText(std::int64_t n);

// 0 where there is no such name.
std::int64_t CountOf(const CountsByName& counts, const std::string& name);
using CountsInOrder = std::vector<std::pair<std::string, std::int64_t>>;
// The largest first, equal ones by name.
CountsInOrder ByCount(const CountsByName& counts);

// What the name of a reason stands for; a name that is not known is returned.
std::string BailTextOf(const std::string& name);
std::string BackwardTextOf(const std::string& name);
std::string FlushTextOf(const std::string& name);
// "" where there is none.
std::string BailRemedyOf(const std::string& name);
// The same for the state of a sequence, where that alone is the reason.
std::string StateRemedyOf(const std::string& state);

// "at aten::mul: 0.25 instead of 0.5, called by f()+0x21 in program".
std::string WhatDiffers(const ExplainedExit& exit);

// What happened to a sequence, or what is missing until something does.
std::string StoryOf(const ExplainedSequence& sequence);
// What it takes to look into a sequence that is not replayed, or loses: the
// commands that write and replay a file of it. "" for another one, or if it has
// no name. `program`: the command line.
std::string LookInto(const ExplainedSequence& sequence,
                     const std::string& program);
// The same for any sequence of that name.
std::string CommandsFor(const std::string& name, const std::string& program);
// Why there is no sequence; ends with a newline.
// REQUIRES: `explanation` has none.
std::string WhyNoSequence(const Explanation& explanation);

}  // namespace tjit

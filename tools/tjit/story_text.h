// The story of a sequence for people, and the list of the sequences that a log
// knows.
// Tested by: tests/acceptance/why_test.py
#pragma once

#include <cstdint>
#include <string>

#include "tools/tjit/sequence_story.h"

namespace tjit::tools {

// The log that a story comes from.
struct StoryLog {
  std::string program, tjit_version;
  std::string end;  // "closed", "killed", ...
  std::uint64_t last_ns = 0;
};

// Lines, each with its newline: who it is, what happened with the time of each
// line, and how it stands at the end of the log.
std::string ToText(const SequenceStory& story, const StoryLog& log);

// A line for each of at most 20 sequences, by number: "  3    56 ops: mul ->".
std::string ListText(const SequenceStories& stories);

}  // namespace tjit::tools

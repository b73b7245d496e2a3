// What happened to a sequence, one event as words: story_text.cpp puts them
// together.
//
//   TextOf(event, story)    "hot at sighting 10 of 10: its ops are ..."
//
// Thread: any. Tested by: tests/acceptance/why_test.py
#pragma once

#include <cstdint>
#include <string>

#include "tools/tjit/sequence_story.h"
#include "tools/tjit/won_time.h"

namespace tjit::tools {

std::string TextOf(const StoryEvent& event, const SequenceStory& story);

// "1 op", "3 ops".
std::string Counted(std::int64_t n, const std::string& one);
// "a guarded scalar differs [scalar_differs]".
std::string ReasonText(const std::string& name);
// "23.27 us instead of 126 us".
std::string TimesOfRunText(const WonTime& won);

}  // namespace tjit::tools

// Two runs as one picture of the same scale of time, as SVG:
//
//   title: both lengths, and how many times as fast the second one is
//   before: program, ops | a bar for each thread
//   after:  program, ops | a bar for each thread and for the compiler
//   axis | legend with the time of each kind in both
//
// A bar shows what was done when, by colour. Where slices are narrower than a
// column of the picture, the column shows the shares of the kinds; what stays
// empty is time outside of ops and segments. Slices within others (COMPILE
// within REPLAY) are drawn over the lower half.
// Tested by: tests/acceptance/timeline_test.py
#pragma once

#include <cstdint>
#include <string>

#include "tools/tjit/timeline_data.h"

namespace tjit::tools {

// The grid: what TimelineData::Fill() wants to know.
inline constexpr int kTimelineColumns = 1200;
std::uint64_t TimelineColumnNs(const TimelineData& before,
                               const TimelineData& after);
std::uint64_t TimelineColumnNs(const TimelineData& run);

// How an SVG file, and a page around one, begin.
inline constexpr char kSvgBeginning[] =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tjit-timeline\" ";
inline constexpr char kPageBeginning[] =
    "<!DOCTYPE html>\n<!-- tjit timeline -->\n";

// REQUIRES: both are filled with columns of that width.
std::string TimelineSvg(const TimelineData& before, const TimelineData& after,
                        std::uint64_t column_ns);
// One run alone, to stand in a page among other things.
std::string TimelineSvg(const TimelineData& run, std::uint64_t column_ns);
// The picture of two on a page that needs nothing from elsewhere.
std::string TimelinePage(const std::string& svg);

}  // namespace tjit::tools

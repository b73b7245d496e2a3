// What a report shows besides counters, if it is given the files: when what
// ran, from the instruction log of the run, and the functions that machine code
// was made of, as graphs, from its dump.
// Tested by: tests/acceptance/report_test.py
#pragma once

#include <string>

#include "recorder/explanation.h"

namespace tjit::tools {

// Sections in HTML; "": not asked for.
struct ReportPictures {
  std::string timeline, graphs;
};

// Both return "" or what is wrong. `explanation`: of the same run, which is
// looked at.
std::string AddTimeline(const std::string& log_path,
                        const Explanation& explanation,
                        ReportPictures* pictures);
std::string AddGraphs(const std::string& dump_path, ReportPictures* pictures);

}  // namespace tjit::tools

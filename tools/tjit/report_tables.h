// The sections of a report that are tables: each returns HTML with its heading,
// or "" if the run has nothing to show there.
// Tested by: tests/acceptance/report_test.py
#pragma once

#include <string>

#include "recorder/explanation.h"
#include "tools/tjit/stats_file.h"

namespace tjit::tools {

// Why not more: what stood against it with remedies, and every reason.
std::string ReasonsSection(const Explanation& explanation);
// A table of all sequences, and what there is to say about each.
std::string SequencesSection(const Explanation& explanation);
// Segments by length, what was compiled of them, and what was compiled again.
std::string CompiledSection(const StatsFile& stats);
std::string RegionsSection(const Explanation& explanation);
std::string JitSection(const Explanation& explanation);
std::string EagerOpsSection(const Explanation& explanation);
std::string MemorySection(const Explanation& explanation);
// Where the numbers of functions in compiled code come from.
std::string FunctionsSection(const Explanation& explanation);
// Every counter with what it counts.
std::string CountersSection(const Explanation& explanation);

}  // namespace tjit::tools

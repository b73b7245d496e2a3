// Reads the file that a run wrote as TJIT_STATS=FILE or `tjit run
// --stats=FILE`.
//
// `tjit explain` prints it as text and `tjit report` as a page.
//   StatsFile stats;
//   const std::string wrong = ReadStatsFile("counters.json", &stats);
//   if (!wrong.empty()) return Fail(wrong);
// A file with another number behind "schema" is refused, as its keys may mean
// something else.
// Tested by: tests/acceptance/explain_test.py, report_test.py
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recorder/explanation.h"

namespace tjit::tools {

struct StatsFile {
  std::string text;  // the whole file
  Explanation explanation;
  // Bin i counts the segments with 2^i ops or more and less than 2^(i + 1).
  std::vector<std::int64_t> segment_length;
  std::vector<std::int64_t> segment_ops;  // ops in these segments
};

// Returns "", or a sentence that names the file and says what is wrong with it.
std::string ReadStatsFile(const std::string& path, StatsFile* stats);

}  // namespace tjit::tools

// What a run of a program showed: values read, exceptions, warnings and
// snapshots of all variables, in order. Two runs are equal if their logs are.
//
// Thread: each running thread has its own log.
// Tested by: tests/differential/harness_test.cpp
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tjit::differential {

struct LogEntry {
  std::int64_t it = 0;
  int statement = -1;  // in the body; -1: none (snapshot, set-up)
  std::string what;    // "v3 values", "exception", ...
  std::string text;    // compared as it is
  // Element bytes in row-major order, compared as they are (NaN payloads too),
  // and their size each, for the report.
  std::string bytes;
  int element_bytes = 1;
};

using Log = std::vector<LogEntry>;

// The first entry that differs, in words; "" if the logs are equal.
std::string FirstDifference(const Log& eager, const Log& other);

}  // namespace tjit::differential

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
  // Element bytes in row-major order, their size each, and of floats the bits
  // of the fraction.
  std::string bytes;
  int element_bytes = 1;
  int fraction_bits = 0;
};

using Log = std::vector<LogEntry>;

// Whether two NaNs of other bits, or printed with another sign, differ. They do
// in replay; machine code says NaN where eager does, but not always which
// (docs/limits.md).
enum class Nans : std::uint8_t { kByBits, kAreEqual };

// The first entry that differs, in words; "" if the logs are equal.
std::string FirstDifference(const Log& eager, const Log& other,
                            Nans nans = Nans::kByBits);

}  // namespace tjit::differential

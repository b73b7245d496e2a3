// What reports say of the process that they are about.
// Tested by: tests/acceptance/log_test.py, explain_test.py
#pragma once

#include <cstdint>
#include <string>

namespace tjit {

// "0.1.0", of tjit.
const char* Version();

// Program and arguments, with blanks between.
std::string CommandLine();

// Since the process began, to 10 ms; 0 if the system does not tell.
std::int64_t WallNs();

}  // namespace tjit

// What a command prints.
// Tested by: tests/acceptance/doctor_test.py
#pragma once

#include <string>
#include <vector>

namespace tjit::tools {

// Runs a command, found as by a shell, with nothing on stdin and stderr thrown
// away and, if one is named, an environment variable set to 1; returns its
// stdout, "" if it cannot be run.
std::string OutputOf(const std::vector<std::string>& command,
                     const char* variable = nullptr);

}  // namespace tjit::tools

// What kind of file a program is, as far as preloading goes.
// Tested by: tests/acceptance/run_test.py
#pragma once

#include <string>

namespace tjit::tools {

// The file that execvp(`name`) would run: `name` if it has a slash, else the
// first executable of that name in PATH; empty if there is none.
std::string FindProgram(const std::string& name);

// Why nothing can be preloaded into the program of this file, as the end of a
// sentence ("it is statically linked"); empty if it can, or nobody knows. A
// script counts as its interpreter.
std::string WhyNotPreloaded(const std::string& file);

}  // namespace tjit::tools

// The files that belong to this command, by where it lies itself.
// Tested by: tests/acceptance/doctor_test.py
#pragma once

#include <string>

namespace tjit::tools {

// The path of this command.
std::string OwnPath();

// A library of tjit's, seen from the folder of the command: the same in the
// build folder and where it is installed. Empty if it is not there.
std::string OwnLibrary(const std::string& name);

}  // namespace tjit::tools

// Which libtorch a program would load, and whether tjit serves it there.
//
// Nothing of the program runs: the loader lists its libraries, as for ldd, so
// that search paths, LD_LIBRARY_PATH and LD_PRELOAD count as they will; a Python
// is asked where its torch lies, and the loader lists the libraries of that. A
// script counts as its interpreter, `env` as what it runs.
// Tested by: tests/acceptance/doctor_test.py
#pragma once

#include <string>
#include <vector>

#include "tools/tjit/doctor_report.h"

namespace tjit::tools {

// `words`: the program and its arguments, at least one.
void CheckProgram(std::vector<std::string> words, DoctorReport* report);

}  // namespace tjit::tools

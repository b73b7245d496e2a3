// The files that a program under `tjit run` reads and writes for tjit.
//
// Programs change their folder, and have children that work in others: what
// names a file is made absolute before the program starts. What cannot be
// written, or would replace a file that is none of tjit's, is said then, too,
// and the program goes on without it.
// Tested by: tests/acceptance/run_files_test.py
#pragma once

#include <string>

namespace tjit::tools {

// Puts that into the environment. `why_no_ops`: what keeps tjit off; empty if
// nothing does.
void PrepareFiles(const std::string& why_no_ops);

}  // namespace tjit::tools

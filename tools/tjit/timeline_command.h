// tjit timeline [options] BEFORE AFTER -o PATH
//
// Draws two instruction logs, mostly of a program without and with tjit, as one
// picture with the same scale of time.
// Tested by: tests/acceptance/timeline_test.py
#pragma once

namespace tjit::tools {

// `arguments` are those after the word "timeline". Returns the exit status: 0,
// log_command.h's kDamagedStatus where rows are missing (the rest is drawn), or
// run_command.h's kUsageStatus where a file cannot be read or written.
int TimelineCommand(int count, char** arguments);

}  // namespace tjit::tools

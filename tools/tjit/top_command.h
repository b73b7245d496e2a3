// tjit top [options] LOG | PID
//
// Shows what a running program does, by the instruction log that it writes: in
// place on a terminal, else as a block of text each interval.
// Tested by: tests/acceptance/top_test.py
#pragma once

namespace tjit::tools {

// `arguments` are those after the word "top". Returns the exit status: 0, or
// kDamagedStatus of log_command.h where rows are missing, or run_command.h's
// kUsageStatus where there is no log to show.
int TopCommand(int count, char** arguments);

}  // namespace tjit::tools

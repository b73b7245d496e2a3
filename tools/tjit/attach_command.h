// tjit attach PID: an instruction log of a process that runs, for some seconds.
//
// What the process does for it: runtime/report/attach.h.
// Tested by: tests/acceptance/attach_test.py
#pragma once

namespace tjit::tools {

// `arguments` are those after the word "attach". Returns the exit status: 0, 1
// if the log ended before its time, or 2 where there is none.
int AttachCommand(int count, char** arguments);

}  // namespace tjit::tools

// tjit run [options] -- program [arguments]
//
// Puts the shim (runtime/preload/) into LD_PRELOAD, sets the variables that
// the options stand for, and becomes the program by execvp(): signals, exit
// status, stdin and children are the program's own. Under TJIT_DISABLE=1
// nothing is preloaded.
// Tested by: tests/acceptance/run_test.py
#pragma once

namespace tjit::tools {

// Exit statuses of tjit itself; the last two are those of a shell.
inline constexpr int kUsageStatus = 2;
inline constexpr int kCannotRunStatus = 126;
inline constexpr int kNotFoundStatus = 127;

// `arguments` are those after the word "run". Returns only on failure.
int RunCommand(int count, char** arguments);

}  // namespace tjit::tools

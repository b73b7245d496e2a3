// tjit replay FILE
//
// Starts tjit-replay, which lies beside this command and links libtorch,
// without the caller's options for tjit: what a sequence gives must not depend
// on them. Tested by: tests/acceptance/replay_command_test.py
#pragma once

namespace tjit::tools {

// `arguments` are those after the word "replay". Returns the exit status: 0,
// 1 if the sequence differs from eager, run_command.h's kUsageStatus if
// something is wrong.
int ReplayCommand(int count, char** arguments);

}  // namespace tjit::tools

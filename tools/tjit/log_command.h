// tjit log [options] FILE
//
// Prints an instruction log (TJIT_INSTRUCTION_LOG), some of its rows, its rows
// as they come, or a summary of it.
// Tested by: tests/acceptance/log_test.py
#pragma once

namespace tjit::tools {

// `arguments` are those after the word "log". Returns the exit status: 0, or
// kDamagedStatus where rows are missing (the rest is printed), or
// run_command.h's kUsageStatus where FILE cannot be read or is no log.
inline constexpr int kDamagedStatus = 1;
int LogCommand(int count, char** arguments);

}  // namespace tjit::tools

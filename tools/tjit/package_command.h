// tjit package show|verify|run|compile FILE
//
// Starts tjit-package, which lies beside this command and links libtorch; for
// `compile` with a folder of compiled code of its own, so that what is put into
// the package is all of it and nothing else.
// Tested by: tests/acceptance/package_command_test.py
#pragma once

namespace tjit::tools {

// `arguments` are those after the word "package". Returns the exit status: 0,
// 1 if the bits differ, run_command.h's kUsageStatus if something is wrong.
int PackageCommand(int count, char** arguments);

}  // namespace tjit::tools

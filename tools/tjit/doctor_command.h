// tjit doctor [-- program [arguments]]
//
// Says whether tjit is complete here and would serve the program, and if not,
// what to do; runs nothing of the program.
// Tested by: tests/acceptance/doctor_test.py
#pragma once

namespace tjit::tools {

// `arguments` are those after the word "doctor". Returns the exit status: 0 if
// tjit would serve, kNotServedStatus if not, run_command.h's kUsageStatus for a
// wrong command line.
inline constexpr int kNotServedStatus = 1;
int DoctorCommand(int count, char** arguments);

}  // namespace tjit::tools

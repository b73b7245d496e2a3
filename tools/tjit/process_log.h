// What /proc says of a process: which instruction log it writes, and how much
// memory it has.
// Tested by: tests/acceptance/top_test.py
#pragma once

#include <cstdint>
#include <string>

namespace tjit::tools {

// Sets *path to the log that the process has open for writing. Returns "", or
// what is wrong and what to do, as a sentence.
std::string FindLogOf(std::uint32_t pid, std::string* path);

// The value of a variable at the start of the process; "" if there is none.
std::string VariableOf(std::uint32_t pid, const std::string& name);

// The value of a line of /proc/PID/status, as it stands there; "" if there is
// none.
std::string StatusOf(std::uint32_t pid, const std::string& name);

// KiB that are in memory (VmRSS); 0 if the process is gone or a zombie.
std::uint64_t ResidentKiB(std::uint32_t pid);

}  // namespace tjit::tools

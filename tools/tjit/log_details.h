// The details of a row of the instruction log that is no op:
// "sequence=566f0d7d4c59 ops=88 executed=10 addmm -> tanh".
// Tested by: tests/acceptance/log_test.py, timeline_test.py,
// top_test.py, why_test.py
#pragma once

#include <cstdint>
#include <string>

namespace tjit::tools {

// The value of " name=value " in the details; empty if there is none.
std::string ValueOf(const std::string& details, const std::string& name);

// The same as a number; 0 where there is none.
std::int64_t NumberOf(const std::string& details, const std::string& name);
// What is behind the last name=value of a DETECT row: the ops.
std::string OpsOf(const std::string& details);

// The text for a terminal: a log may hold anything, and a terminal obeys some
// of it.
std::string Printable(std::string text);

}  // namespace tjit::tools

// The file of TJIT_STATS for a program in which tjit saw no op.
// Tested by: tests/runtime/report/stats_test.cpp, tests/error/bad_setup_test.py
#pragma once

#include <string>

namespace tjit {

// Zeros, and "why": what kept tjit from seeing an op.
std::string StatsWithoutOps(const std::string& why);

}  // namespace tjit

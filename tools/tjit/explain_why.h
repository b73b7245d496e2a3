// tjit explain --why=N LOG: follows one sequence through an instruction log.
// Tested by: tests/acceptance/why_test.py
#pragma once

#include <string>

namespace tjit::tools {

// Prints the story of the sequence with that number, as `tjit explain` gives
// it, or that name, as `tjit log` gives it. "" or an unknown one: says on
// stderr which the log knows. Returns the exit status.
int ExplainWhy(const std::string& number_or_name, const std::string& path);

// "" unless `path` is an instruction log; else what to do with one.
std::string WhatIfLog(const std::string& path);

}  // namespace tjit::tools

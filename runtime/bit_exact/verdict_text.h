// Verdicts of probes in words, for tjit::explain().
// Tested by: tests/runtime/bit_exact/explain_functions_test.cpp
#pragma once

#include <map>
#include <string>
#include <vector>

#include "recorder/explanation.h"

namespace tjit::runtime {

// Of questions and answers as Verdicts::Record() gets them ("math tanh f32",
// "vmsTanh"): "MKL's vmsTanh, exported by libtorch".
std::vector<ExplainedFunction> ExplainVerdicts(
    const std::map<std::string, std::string>& verdicts);

}  // namespace tjit::runtime

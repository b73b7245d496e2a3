// Random functions through passes: the same bits before and after.
// More of them: --gtest_repeat=N --gtest_shuffle takes new ones each time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/passes/passes.h"

namespace tjit {

// The first seed of this repetition of the tests.
std::uint64_t FirstSeed();

// "" if both functions give the same bits for arguments by `seed`; else what
// differs.
std::string DifferenceOf(const ir::Function& a, const ir::Function& b,
                         std::uint64_t seed);

// Runs the passes over `count` functions and fails the test where a bit
// changes or a rule is broken. Returns how many functions changed.
int ComparePasses(const std::vector<PassInfo>& passes, int count);

}  // namespace tjit

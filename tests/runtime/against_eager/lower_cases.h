// Calls of single ops that lowering claims, in tables.
#pragma once

#include <vector>

namespace tjit::testing {

// Letters of `arguments`: T tensor, M mask, S scalar, 0 to 9 an integer, h 0.5,
// m -0.5, d 1.25, j -1.0, k -2, f false, N None, n "none", t "tanh".
struct OpCase {
  const char* op;
  const char* arguments;
  bool for_integers;
};

const std::vector<OpCase>& PointwiseCases();
const std::vector<OpCase>& CompositeCases();  // and copies and fills
const std::vector<OpCase>& IntegerCases();    // of integers alone
const std::vector<OpCase>& HalfCases();
// Of tensors that lie flat.
const std::vector<OpCase>& PositionDependentCases();

}  // namespace tjit::testing

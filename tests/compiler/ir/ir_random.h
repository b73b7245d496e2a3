// Random well-typed functions, for tests that compare two ways of running or
// transforming them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "compiler/ir/interpreter.h"
#include "compiler/ir/ir.h"

namespace tjit::ir {

struct RandomOptions {
  int instructions = 12;
  bool calls = true;  // a hook for "test::twice" must be there
  bool updates = true;
  bool reductions = true;  // and row ops, of any dims
  int rows = 0;        // percent of instructions along the last dim of [n0,n1]
  int repeats = 0;     // percent of instructions that repeat an earlier one
  int returned = 100;  // percent of the values that are returned
  int writes = 2;      // at most
  // Percent of the tensors that are [n0,3] in f32, over externals that are
  // twice as large: shifted, interleaved and transposed parts, which
  // write-backs replace. 0: anything of any size.
  int parts = 0;
};

// The same seed gives the same function. It verifies; it has symbols n0, n1,
// which must be bound to at least 1, externals of several dtypes, two scalar
// arguments, accesses that transpose, slice and broadcast, updates, calls,
// write-backs, and returns the values that instructions made.
Function RandomFunction(std::uint64_t seed, const RandomOptions& options = {});

// Memory and arguments for one run of any function.
class RandomRun {
 public:
  // Small numbers by `seed`; every symbol is 1 to 4.
  RandomRun(const Function& function, std::uint64_t seed);
  RandomRun(const RandomRun&) = delete;

  RunArguments arguments;
  // All bytes behind externals and returned values.
  std::string Bytes() const;

 private:
  std::deque<std::string> memory_;
};

// Runs "test::twice": result = 2 * operand 0, and operand 1, if it is written,
// becomes 0 where it is accessed.
std::string RunTestCall(const CallSite& site);

}  // namespace tjit::ir

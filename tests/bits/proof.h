// Proof that calls have eager's bits: the same calls run eagerly, and in steps
// under tjit until what can be compiled is machine code, and every result and
// every argument is compared. NaNs are equal to NaNs.
//
//   Proof proof;
//   proof.Add({"aten::add.Tensor", {x, y, 1}});
//   const Proven proven = proof.Run(/*threads=*/1);
//
// Calls that eager refuses are left out. An in-place one gets a copy of its
// first argument in every step, and each first result is negated: one op alone
// would stay a library call.
// Threads: switches tjit on and off for the process.
// Tested by: tests/bits/bit_exact_test.cpp
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tjit::bits {

struct OpCall {
  std::string op;  // "aten::add.Tensor"
  torch::jit::Stack arguments;
  bool is_in_place = false;
};

struct Proven {
  std::int64_t calls = 0;  // that eager takes
  double in_code = 0;      // of the ops of a step, in machine code
  std::string difference;  // of the first call that differs; "" if none does
};

class Proof {
 public:
  // Calls it, and leaves it out if eager throws.
  void Add(OpCall call);
  // The out= form of a call.
  void AddOut(const std::string& op, const OpCall& call);
  bool empty() const { return calls_.empty(); }
  // On so many threads of eager's.
  Proven Run(int threads);

 private:
  using Results = std::vector<at::Tensor>;
  // All calls, in order: their results, of in-place ones the argument, and
  // the negated one.
  std::vector<Results> Step() const;

  std::vector<OpCall> calls_;
};

}  // namespace tjit::bits

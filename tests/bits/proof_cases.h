// What the proof calls: for every lowered op, arguments of all kinds.
// Tested by: tests/bits/bit_exact_test.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/bits/proof.h"
#include "tests/runtime/against_eager/lower_test_inputs.h"

namespace tjit::bits {

// What the tensors hold: numbers of some size with special ones among them,
// such numbers alone (a sum with a NaN proves little), any bits, or halves that
// cancel (CancellingInputs()).
enum class Fill : std::uint8_t { kSpecial, kTame, kAnyBits, kCancelling };

struct Form {
  std::vector<std::int64_t> sizes;
  testing::Lay lay = testing::Lay::kDense;
  at::ScalarType type = at::kFloat;
  std::uint64_t seed = 1;
  Fill fill = Fill::kSpecial;
};

using MakeArguments = std::function<torch::jit::Stack(const Form&)>;

struct ProofOp {
  std::string op;
  std::vector<MakeArguments> makers;
  // Dims of the arguments, if it needs so many.
  int dims = 0;
};

// By name and dims, each once. A list op has lists of three tensors.
const std::vector<ProofOp>& ProofOps();

}  // namespace tjit::bits

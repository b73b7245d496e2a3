// What the proof calls: for every lowered op, arguments of all kinds.
// Tested by: tests/bits/bit_exact_test.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/bits/proof.h"
#include "tests/runtime/lower_numbers.h"

namespace tjit::bits {

struct Form {
  std::vector<std::int64_t> sizes;
  testing::Lay lay = testing::Lay::kDense;
  at::ScalarType type = at::kFloat;
  std::uint64_t seed = 1;
};

using MakeArguments = std::function<torch::jit::Stack(const Form&)>;

struct ProofOp {
  std::string op;
  std::vector<MakeArguments> makers;
  // The second dim, the first or both are reduced: two dims are needed.
  bool has_rows = false;
};

// By name, each once. A list op has lists of three tensors.
const std::vector<ProofOp>& ProofOps();

}  // namespace tjit::bits

// What draws random numbers: for each such op of eager, arguments of some size
// and type. Part of random_test.cpp.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tjit::bits {

struct RandomForm {
  std::int64_t n = 1;
  at::ScalarType type = at::kFloat;
};

// THROWS: what eager throws where there are no such arguments.
using MakeRandom = std::function<torch::jit::Stack(const RandomForm&)>;

struct RandomOp {
  std::string op;  // "aten::normal_"
  MakeRandom make;
  bool reads = false;  // a number of a tensor, on the way: little is pending
};

const std::vector<RandomOp>& RandomOps();

}  // namespace tjit::bits

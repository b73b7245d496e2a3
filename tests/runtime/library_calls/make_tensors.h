// Tensors of many geometries with data that depends on a seed only.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tjit::runtime::testing {

// A source of data: equal seeds give equal tensors.
class Data {
 public:
  explicit Data(int seed) : state_(0x9e3779b97f4a7c15u * (seed + 1)) {}

  // Values in (-2, 2), of complex numbers both parts and from the 20th on some
  // NaNs; integers in [-5, 5] without 0 (unsigned ones wrap); booleans.
  at::Tensor Dense(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat);
  // Integers in [0, high).
  at::Tensor Index(at::IntArrayRef sizes, std::int64_t high);
  // Dense with positive values.
  at::Tensor Positive(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat);

  // `sizes` laid out in the given way:
  //   "dense", "transposed" (last two dims), "strided" (every other element of
  //   a larger storage, at an offset), "expanded" (first dim has stride 0),
  //   "column" (last dim has size 1), "row" (without the first dim),
  //   "scalar" (0-dim), "wrapped" (0-dim float64, wrapped number),
  //   "wrapped complex", "real" (dense, of the type of the parts),
  //   "channels_last".
  at::Tensor Laid(const std::string& layout, at::IntArrayRef sizes,
                  at::ScalarType dtype = at::kFloat);

  double Uniform();

 private:
  std::uint64_t Next();
  std::uint64_t state_;
};

// A Maker (recorded_call.h) of these arguments, from a source `d`.
#define TJIT_CALL(...)                     \
  [=](int seed) {                          \
    Data d(seed);                          \
    return torch::jit::Stack{__VA_ARGS__}; \
  }

}  // namespace tjit::runtime::testing

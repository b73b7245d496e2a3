// Eager's kernels over tiles: what position_dependent.h does, for one kernel.
// Thread: any.
// Tested by: tests/runtime/bit_exact/position_dependent_test.cpp
#pragma once

#include <ATen/TensorIterator.h>

#include <cstdint>

#include "compiler/functions/math_functions.h"

namespace tjit::runtime {

// The types that there are position-dependent functions of.
constexpr int kPositionTypes = 4;
constexpr at::ScalarType kPositionTorchTypes[kPositionTypes] = {
    at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};
constexpr ir::DType kPositionDTypes[kPositionTypes] = {
    ir::DType::kF32, ir::DType::kF64, ir::DType::kBF16, ir::DType::kF16};

// A multiple of eager's blocks of f32, of vectors of any width: what is as long
// is whole blocks, whatever they are, and a remainder is shorter than it.
constexpr std::int64_t kPositionBlock = 32;

// Eager's kernel, over what the iterator says, with the op's scalars.
using PositionKernel = void (*)(at::TensorIterator& it, const double* s);

// How eager cuts. kGelu: chunks of threads of its own. kOneVector: the kernel
// has vectors of half the width; or behind the blocks of two vectors the
// compiler made vectors of the loop over the remainder, so only less than one
// is computed by the scalar formula. (Not where the result lies in an operand:
// such steps are not lowered.)
enum class PositionCut : std::uint8_t { kUsual, kGelu, kOneVector };

// The arguments of TjitPositionFn (compiler/abi/kernel_abi.h).
struct PositionTile {
  std::int64_t n;
  const void *a, *b;  // b: null of ops of one tensor
  void* out;
  std::int64_t first, total;
  const double* s;
};

// Between the two operands of a kernel of few elements a third one, zeros. Of
// this thread, until the next call.
at::TensorIterator& WithZeros(at::TensorIterator& it);

// `type`: index into the lists above.
void RunPositionTile(PositionKernel kernel, int type, PositionCut cut,
                     const PositionTile& tile);

}  // namespace tjit::runtime

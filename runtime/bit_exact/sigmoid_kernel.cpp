#include "runtime/bit_exact/sigmoid_kernel.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sigmoid.h>

#include <bit>
#include <cstdint>
#include <random>

#include "compiler/functions/sigmoid_exact.h"
#include "runtime/bit_exact/position_tiles.h"
#include "runtime/bit_exact/same_bits.h"
#include "runtime/platform/fp_environment.h"
#include "runtime/platform/kernel_stubs.h"

namespace tjit::runtime {
namespace {

// Every second one is of a size at which there is something to round.
at::Tensor TestInputs(std::int64_t n) {
  at::Tensor x = at::empty({n}, at::kFloat);
  float* const numbers = x.mutable_data_ptr<float>();
  std::mt19937 random(19);
  constexpr auto kLeast = std::bit_cast<std::uint32_t>(0x1p-24F);
  constexpr auto kMost = std::bit_cast<std::uint32_t>(106.0F);
  std::uniform_int_distribution<std::uint32_t> size(kLeast, kMost);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    numbers[i] = std::bit_cast<float>(
        i % 2 == 0 ? bits : (bits & 0x80000000U) | size(random));
  }
  constexpr float kSpecial[] = {0, 1, 1e-40F, 87.4F, 88.8F, 100, 104, 1e30F};
  for (std::size_t i = 0; i < std::size(kSpecial); ++i) {
    numbers[2 * i] = kSpecial[i];
    numbers[2 * i + 1] = -kSpecial[i];
  }
  return x;
}

}  // namespace

void QuickSigmoidKernel(at::TensorIterator& it, const double*) {
  const std::int64_t n = it.numel();
  if (n % kPositionBlock != 0 || it.dtype(0) != at::kFloat ||
      !HasUsualArithmetic()) {
    return at::native::sigmoid_stub(at::kCPU, it);
  }
  SigmoidExact(n, static_cast<const float*>(it.data_ptr(1)),
               static_cast<float*>(it.data_ptr(0)));
}

bool SigmoidExactHasBitsOfEager(Check check) {
  if (!HasSigmoidExact()) return false;
  const at::Tensor x = TestInputs(check == Check::kSpot ? 2048 : 32768);
  at::Tensor ours = at::empty_like(x);
  SigmoidExact(x.numel(), x.const_data_ptr<float>(),
               ours.mutable_data_ptr<float>());
  const at::Tensor eager = at::sigmoid(x);
  const auto n = static_cast<std::size_t>(x.numel());
  return FirstDifference(ours.const_data_ptr<float>(),
                         eager.const_data_ptr<float>(), n) == n;
}

}  // namespace tjit::runtime

#include "runtime/bit_exact/pow_kernel.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/pow.h>

#include <bit>
#include <cstdint>
#include <random>

#include "compiler/functions/pow_exact.h"
#include "runtime/bit_exact/position_tiles.h"
#include "runtime/bit_exact/same_bits.h"
#include "runtime/platform/fp_environment.h"
#include "runtime/platform/kernel_stubs.h"
#include "runtime/platform/libtorch_symbol.h"

namespace tjit::runtime {
namespace {

// Of all sizes, every second one near 1.
at::Tensor TestInputs(std::int64_t n) {
  at::Tensor x = at::empty({n}, at::kFloat);
  float* const numbers = x.mutable_data_ptr<float>();
  std::mt19937 random(11);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    numbers[i] = std::bit_cast<float>(
        i % 2 == 0 ? bits : (bits & 0x83ffffff) + 0x3e000000);
  }
  constexpr float kSpecial[] = {0, 1, 2, 0.5F, 3, 1e-20F, 1e20F, 1e-40F};
  for (std::size_t i = 0; i < std::size(kSpecial); ++i) {
    numbers[2 * i] = kSpecial[i];
    numbers[2 * i + 1] = -kSpecial[i];
  }
  return x;
}

}  // namespace

void EagerPowKernel(at::TensorIterator& it, const double* s) {
  at::native::pow_tensor_scalar_stub(at::kCPU, it, s[0]);
}

void QuickPowKernel(at::TensorIterator& it, const double* s) {
  const std::int64_t n = it.numel();
  if (n % kPositionBlock != 0 || it.dtype(0) != at::kFloat ||
      !IsPowExponent(s[0]) || !HasUsualArithmetic()) {
    return EagerPowKernel(it, s);
  }
  PowExact(n, static_cast<const float*>(it.data_ptr(1)), static_cast<int>(s[0]),
           PowfOfLibtorch(), static_cast<float*>(it.data_ptr(0)));
}

bool PowExactHasBitsOfEager(Check check) {
  if (!HasPowExact() || PowfOfLibtorch() == nullptr) return false;
  const at::Tensor x = TestInputs(check == Check::kSpot ? 1024 : 8192);
  at::Tensor ours = at::empty_like(x);
  for (const int exponent : kPowExponents) {
    PowExact(x.numel(), x.const_data_ptr<float>(), exponent, PowfOfLibtorch(),
             ours.mutable_data_ptr<float>());
    const at::Tensor eager = at::pow(x, exponent);
    const auto n = static_cast<std::size_t>(x.numel());
    if (FirstDifference(ours.const_data_ptr<float>(),
                        eager.const_data_ptr<float>(), n) != n) {
      return false;
    }
  }
  return true;
}

void* PowfOfLibtorch() {
  static void* const powf = LibtorchSymbol("Sleef_powf16_u10");
  return powf;
}

}  // namespace tjit::runtime

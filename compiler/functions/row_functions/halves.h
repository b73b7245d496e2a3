// Reductions of f32 that were bf16 or f16, as eager reduces those: by vectors
// of 16 of them, whatever the processor has. A sum is one of f32 in 8 lanes;
// the two halves of each vector are added to one another before they go to it.
//
//   columns   as f32 in 8 lanes, where there are 16 of them
//   extremes  as f32 in 16 lanes
//
// The results are f32: what rounds them is not here.
// Tested by: tests/compiler/functions/row_functions_test.cpp
// Source: aten/src/ATen/native/cpu/SumKernel.cpp (InnerSumCastLoadPolicy,
// vectorized_outer_sum) and Reduce.h of libtorch 2.13.
#pragma once

#include "compiler/functions/row_functions/columns.h"
#include "compiler/functions/row_functions/extremes.h"
#include "compiler/functions/row_functions/sums.h"

namespace tjit::rows {
namespace {

inline constexpr int kHalves = 16;  // of a vector

struct UnitOfHalves {
  static constexpr int kElements = kHalves;
  using Lanes = VectorUnit<float, kHalves / 2>;
  using Type = Lanes::Type;
  static Type Of(const float* x) {
    return Lanes::Of(x) + Lanes::Of(x + kHalves / 2);
  }
};

// As SignedExtremeOf() has it.
template <class Isa>
inline constexpr int kPartsOfHalves = kHalves / kLanes<Isa, float>;

template <class Isa>
using SumColumnsOfHalves =
    SumColumns<Isa, float, false, kHalves / 2, /*kLeast=*/kHalves>;

// b: null, or what has been added up of each row.
inline void RunSumsOfHalves(std::int64_t rows, std::int64_t n, const void* a,
                            const void* b, void* out) {
  constexpr int kGroup = 4 * kHalves, kSums = kGroup / 2;
  const auto* x = static_cast<const float*>(a);
  const auto* ways = static_cast<const float*>(b);
  auto* sums = static_cast<float*>(out);
  for (std::int64_t i = 0; i < rows; ++i) {
    sums[i] = ways == nullptr
                  ? SumOfRowBy<UnitOfHalves>(x + i * n, n)
                  : SumOfWays<UnitOfHalves>(ways + i * kSums, x + i * kGroup,
                                            n % kGroup);
  }
}

template <class Isa, bool kMax>
void RunExtremesOfHalves(std::int64_t rows, std::int64_t n, const void* a,
                         const void* /*b*/, void* out) {
  const auto* x = static_cast<const float*>(a);
  auto* extremes = static_cast<float*>(out);
  for (std::int64_t i = 0; i < rows; ++i, x += n) {
    extremes[i] = ExtremeOf<Isa, float, kMax>(x, n);
    if (extremes[i] != 0) continue;
    extremes[i] = SignedExtremeOf<Isa, float, kMax, kPartsOfHalves<Isa>>(x, n);
  }
}

}  // namespace
}  // namespace tjit::rows

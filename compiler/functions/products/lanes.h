// Products of float whose sums are made of 4 or 8 sums side by side, as a dot
// product of vectors makes them (ProductOrder::lanes).
//
//   L::V, L::kWidth, L::Load(p), L::Store(p, v), L::Zero()  as in tiles.h
//   L::AllFours(p)                  the four numbers at p, again and again
//   L::SumOfFours(v)                (v0 + v2) + (v1 + v3) in the first element
//                                   of each four
#pragma once

#include <immintrin.h>

#include "compiler/functions/products.h"
#include "compiler/functions/products/tiles.h"

// Each instruction set has a copy of its own, which no other file may use.
namespace tjit::products {
namespace {

constexpr std::int64_t kFour = 4;

// The sum as it is stored where there is no z.
float Ended(const Product& p, float sum) {
  return p.order.ends_at_zero ? sum + 0.0f : sum;
}

// Four terms of each column side by side; behind the last column are zeros.
// Panels of `columns` columns.
void PackFours(const Product& p, const float* b, std::int64_t columns,
               float* to) {
  for (std::int64_t first = 0; first < p.n; first += columns) {
    for (std::int64_t t = 0; t < p.k; t += kFour) {
      for (std::int64_t j = first; j < first + columns; ++j) {
        const __m128 four =
            j < p.n ? _mm_loadu_ps(b + j * p.b_column + t) : _mm_setzero_ps();
        _mm_storeu_ps(to, four);
        to += kFour;
      }
    }
  }
}

// kRows rows of one panel of two vectors.
template <class L, int kRows>
void RunFours(const Product& p, const float* a, const float* panel,
              const float* z, float* c, std::int64_t columns) {
  using V = typename L::V;
  V sum[kRows][2];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = L::Zero();
  for (std::int64_t t = 0; t < p.k; t += kFour) {
    const V terms[2] = {L::Load(panel), L::Load(panel + L::kWidth)};
    panel += 2 * L::kWidth;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V factors = L::AllFours(a + r * p.a_row + t);
      sum[r][0] = sum[r][0] + factors * terms[0];
      sum[r][1] = sum[r][1] + factors * terms[1];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    float sums[2 * L::kWidth];
    L::Store(sums, L::SumOfFours(sum[r][0]));
    L::Store(sums + L::kWidth, L::SumOfFours(sum[r][1]));
    for (std::int64_t j = 0; j < columns; ++j) {
      const float result = sums[kFour * j];
      c[r * p.c_row + j] =
          z == nullptr ? Ended(p, result) : z[r * p.z_row + j] + result;
    }
  }
}

template <class L>
void RunFourLanes(const Product& p, const float* a, const float* b,
                  const float* z, float* c, float* scratch) {
  constexpr std::int64_t kColumns = 2 * L::kWidth / kFour;
  PackFours(p, b, kColumns, scratch);
  for (std::int64_t j = 0; j < p.n; j += kColumns) {
    const float* const panel = scratch + j * p.k;
    const std::int64_t columns = Min(kColumns, p.n - j);
    for (std::int64_t row = 0; row < p.m;) {
      const std::int64_t left = p.m - row;
      const auto run = left >= 4   ? &RunFours<L, 4>
                       : left >= 2 ? &RunFours<L, 2>
                                   : &RunFours<L, 1>;
      run(p, a + row * p.a_row, panel,
          z == nullptr ? nullptr : z + row * p.z_row + j, c + row * p.c_row + j,
          columns);
      row += left >= 4 ? 4 : left >= 2 ? 2 : 1;
    }
  }
}

// Of the last columns of such a product, three at most.
void RunEightLanes(const Product& p, const float* a, const float* b,
                   const float* z, float* c) {
  for (std::int64_t row = 0; row < p.m; ++row) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      const float* x = a + row * p.a_row;
      const float* y = b + j * p.b_column;
      __m128 low = _mm_setzero_ps(), high = _mm_setzero_ps();
      std::int64_t t = 0;
      for (; t + 2 * kFour <= p.k; t += 2 * kFour) {
        low = low + _mm_loadu_ps(x + t) * _mm_loadu_ps(y + t);
        high = high + _mm_loadu_ps(x + t + kFour) * _mm_loadu_ps(y + t + kFour);
      }
      const __m128 four = low + high;
      const __m128 two = four + _mm_movehl_ps(four, four);
      float result = two[0] + two[1];
      for (; t < p.k; ++t) result = result + x[t] * y[t];
      c[row * p.c_row + j] =
          z == nullptr ? Ended(p, result) : z[row * p.z_row + j] + result;
    }
  }
}

// Any order of float.
template <class L>
void RunFloats(const Product& p, const float* a, const float* b, const float* z,
               float* c, float* scratch) {
  if (p.order.lanes == 4) return RunFourLanes<L>(p, a, b, z, c, scratch);
  if (p.order.lanes == 8) return RunEightLanes(p, a, b, z, c);
  RunAnyProduct<L>(p, a, b, z, c, scratch);
}

}  // namespace
}  // namespace tjit::products

// Sums of the columns of n contiguous rows, in the order of eager on one
// thread: four vectors of columns at a time with one cascade each, then single
// vectors and single columns with four interleaved ones.
// Tested by: tests/compiler/row_functions_test.cpp
#pragma once

#include "compiler/row_functions/sums.h"

namespace tjit::rows {
namespace {

// Where the columns fill no vector: four of them at a time. One column alone is
// a row.
template <class Isa, class T>
inline void SumFewColumns(std::int64_t rows, std::int64_t n, const T* x, T* z) {
  constexpr int kWays = 4;
  if (n == 1) {
    z[0] = SumOfRow<Isa, T>(x, rows);
    return;
  }
  std::int64_t j = 0;
  for (; j + kWays <= n; j += kWays) {
    T total[kWays];
    Cascade(
        rows, [&](std::int64_t i, int way) { return x[i * n + j + way]; },
        total);
    for (int way = 0; way < kWays; ++way) z[j + way] = total[way];
  }
  for (; j < n; ++j) {
    z[j] = SumOfUnits<T>(rows, [&](std::int64_t i) { return x[i * n + j]; });
  }
}

// A row function whose `rows` are the rows that are added up and whose `n` is
// the number of columns; out has n elements.
template <class Isa, class T>
void RunColumns(std::int64_t rows, std::int64_t n, const void* a, const void*,
                void* out) {
  using V = Vector<Isa, T>;
  constexpr int kWidth = kLanes<Isa, T>;
  constexpr int kWays = 4;
  const T* x = static_cast<const T*>(a);
  T* z = static_cast<T*>(out);
  if (n < kWidth) return SumFewColumns<Isa, T>(rows, n, x, z);
  std::int64_t j = 0;
  for (; j + kWays * kWidth <= n; j += kWays * kWidth) {
    V total[kWays];
    Cascade(
        rows,
        [&](std::int64_t i, int way) {
          return Load<Isa, T>(x + i * n + j + way * kWidth);
        },
        total);
    for (int way = 0; way < kWays; ++way) {
      Store<Isa, T>(z + j + way * kWidth, total[way]);
    }
  }
  for (; j + kWidth <= n; j += kWidth) {
    Store<Isa, T>(z + j, SumOfUnits<V>(rows, [&](std::int64_t i) {
                    return Load<Isa, T>(x + i * n + j);
                  }));
  }
  for (; j < n; ++j) {
    z[j] = SumOfUnits<T>(rows, [&](std::int64_t i) { return x[i * n + j]; });
  }
}

}  // namespace
}  // namespace tjit::rows

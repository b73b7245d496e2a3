// The sum of one row, with eager's order of additions: over units, vectors or
// single numbers, in four interleaved ways; each way adds up 16 or more units,
// these sums are added up again, and so on over four levels.
// Tested by: tests/compiler/functions/row_functions_test.cpp
#pragma once

#include "compiler/functions/row_functions/lanes.h"

namespace tjit::rows {
namespace {

inline int CeilLog2(std::int64_t x) {
  if (x <= 2) return 1;
  return 64 - __builtin_clzll(static_cast<unsigned long long>(x - 1));
}

// total[way] = the sum of unit(i, way) for i < n.
template <class U, int kWays, class Unit>
[[gnu::always_inline]] inline void Cascade(std::int64_t n, const Unit& unit,
                                           U (&total)[kWays]) {
  constexpr int kLevels = 4;
  if (n < 16) {  // one level: nothing is ever carried
    for (U& sum : total) sum = U{};
    for (std::int64_t i = 0; i < n; ++i) {
      for (int way = 0; way < kWays; ++way) total[way] += unit(i, way);
    }
    return;
  }
  const int power = CeilLog2(n) / kLevels < 4 ? 4 : CeilLog2(n) / kLevels;
  const std::int64_t step = std::int64_t{1} << power;
  U level[kLevels][kWays];
  for (auto& sums : level) {
    for (U& sum : sums) sum = U{};
  }
  std::int64_t i = 0;
  while (i + step <= n) {
    U sum[kWays];
    for (int way = 0; way < kWays; ++way) sum[way] = level[0][way];
    for (const std::int64_t end = i + step; i < end; ++i) {
      for (int way = 0; way < kWays; ++way) sum[way] += unit(i, way);
    }
    for (int way = 0; way < kWays; ++way) level[0][way] = sum[way];
    for (int at = 1; at < kLevels; ++at) {
      for (int way = 0; way < kWays; ++way) {
        level[at][way] += level[at - 1][way];
        level[at - 1][way] = U{};
      }
      if ((i & ((step - 1) << (at * power))) != 0) break;
    }
  }
  for (; i < n; ++i) {
    for (int way = 0; way < kWays; ++way) level[0][way] += unit(i, way);
  }
  for (int at = 1; at < kLevels; ++at) {
    for (int way = 0; way < kWays; ++way) level[0][way] += level[at][way];
  }
  for (int way = 0; way < kWays; ++way) total[way] = level[0][way];
}

// The sum of unit(i) for i < n.
template <class U, class Unit>
[[gnu::always_inline]] inline U SumOfUnits(std::int64_t n, const Unit& unit) {
  constexpr int kWays = 4;
  U total[kWays];
  Cascade(
      n / kWays, [&](std::int64_t i, int way) { return unit(i * kWays + way); },
      total);
  for (std::int64_t i = n / kWays * kWays; i < n; ++i) total[0] += unit(i);
  for (int way = 1; way < kWays; ++way) total[0] += total[way];
  return total[0];
}

// Lanes of a unit: each of the four ways of a sum has so many.
template <class Isa, class T>
inline constexpr int kSumLanes = kLanes<Isa, T> / (Isa::kSumsHalves ? 2 : 1);

// A unit: so many elements of a row, as so many lanes.
template <class T, int kLaneCount>
struct VectorUnit {
  static constexpr int kElements = kLaneCount;
  using Type =
      typename VectorOf<T, kLaneCount* static_cast<int>(sizeof(T))>::Type;
  static Type Of(const T* x) {
    Type v;
    __builtin_memcpy(&v, x, sizeof(v));
    return v;
  }
};

// The end of a row's sum: what fills no unit, then the lanes of the units' sum.
template <int kElements, class T, class U>
[[gnu::always_inline]] inline T SumOfEnd(const T* x, std::int64_t n,
                                         const U& sum) {
  T all = 0;
  for (std::int64_t i = n / kElements * kElements; i < n; ++i) all += x[i];
  T lane[sizeof(U) / sizeof(T)];
  __builtin_memcpy(lane, &sum, sizeof(lane));
  for (const T& number : lane) all += number;
  return all;
}

// The sum of a row whose whole groups, a unit for each way, have been added up:
// `ways` lie side by side, x is what is left.
template <class Unit, class T>
inline T SumOfWays(const T* ways, const T* x, std::int64_t n) {
  using U = typename Unit::Type;
  constexpr int kWidth = sizeof(U) / sizeof(T);
  constexpr int kElements = Unit::kElements;
  using Way = VectorUnit<T, kWidth>;
  U sum = Way::Of(ways);
  for (std::int64_t i = 0; i < n / kElements; ++i) {
    sum += Unit::Of(x + i * kElements);
  }
  for (int i = 1; i < 4; ++i) sum += Way::Of(ways + i * kWidth);
  return SumOfEnd<kElements>(x, n, sum);
}

// The sum of a row by units; of one that fills none, by single numbers.
template <class Unit, class T>
inline T SumOfRowBy(const T* x, std::int64_t n) {
  constexpr int kElements = Unit::kElements;
  if (n < kElements) {
    return SumOfUnits<T>(n, [&](std::int64_t i) { return x[i]; });
  }
  const typename Unit::Type sum = SumOfUnits<typename Unit::Type>(
      n / kElements,
      [&](std::int64_t i) { return Unit::Of(x + i * kElements); });
  return SumOfEnd<kElements>(x, n, sum);
}

// By units of half a vector, the order of narrower vectors: two of the four
// ways are the halves of one accumulator.
template <class Isa, class T>
inline T SumByHalves(const T* x, std::int64_t n) {
  constexpr int kWidth = kSumLanes<Isa, T>;
  constexpr int kGroup = 4 * kWidth;
  if (n < kWidth) {
    return SumOfUnits<T>(n, [&](std::int64_t i) { return x[i]; });
  }
  Vector<Isa, T> total[2];
  Cascade(
      n / kGroup,
      [&](std::int64_t i, int pair) {
        return Load<Isa, T>(x + i * kGroup + pair * 2 * kWidth);
      },
      total);
  T ways[kGroup];
  __builtin_memcpy(ways, total, sizeof(ways));
  return SumOfWays<VectorUnit<T, kWidth>>(ways, x + n / kGroup * kGroup,
                                          n % kGroup);
}

template <class Isa, class T>
inline T SumOfRow(const T* x, std::int64_t n) {
  if constexpr (Isa::kSumsHalves) return SumByHalves<Isa, T>(x, n);
  return SumOfRowBy<VectorUnit<T, kLanes<Isa, T>>>(x, n);
}

}  // namespace
}  // namespace tjit::rows

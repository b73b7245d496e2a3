// The greatest and the smallest of one row. They do not depend on the order but
// for the sign of zero: if the extreme is 0, eager's order is repeated to find
// the sign.
// Tested by: tests/compiler/functions/row_functions_test.cpp
#pragma once

#include "compiler/functions/row_functions/lanes.h"

namespace tjit::rows {
namespace {

// The extreme but for the sign of a zero; NaN if there is one, without
// `kSeesNaNs` that of all other numbers (none: infinity).
template <class Isa, class T, bool kMax, bool kSeesNaNs = true>
inline T ExtremeOf(const T* x, std::int64_t n) {
  using V = Vector<Isa, T>;
  constexpr int kWidth = kLanes<Isa, T>;
  constexpr int kWays = 4;
  constexpr T kNone = kMax ? -__builtin_inf() : __builtin_inf();
  constexpr Greater<kMax> kGreater;
  if (n < kWidth) {
    T best = kNone;
    bool is_nan = false;
    for (std::int64_t i = 0; i < n; ++i) {
      if (kSeesNaNs) is_nan |= x[i] != x[i];
      best = kGreater(x[i], best);
    }
    return is_nan ? T(__builtin_nan("")) : best;
  }
  V best[kWays];
  for (V& way : best) way = Splat<Isa, T>(kNone);
  auto is_nan = best[0] != best[0];
  std::int64_t i = 0;
  for (; i + kWays * kWidth <= n; i += kWays * kWidth) {
    for (int way = 0; way < kWays; ++way) {
      const V v = Load<Isa, T>(x + i + way * kWidth);
      if (kSeesNaNs) is_nan |= v != v;
      best[way] = kGreater(v, best[way]);
    }
  }
  for (; i + kWidth <= n; i += kWidth) {
    const V v = Load<Isa, T>(x + i);
    if (kSeesNaNs) is_nan |= v != v;
    best[0] = kGreater(v, best[0]);
  }
  if (i < n) {
    const V v = Isa::FirstOf(static_cast<int>(n - i),
                             Isa::LoadPart(x + i, static_cast<int>(n - i)),
                             Splat<Isa, T>(kNone));
    if (kSeesNaNs) is_nan |= v != v;
    best[0] = kGreater(v, best[0]);
  }
  best[0] = kGreater(kGreater(best[0], best[1]), kGreater(best[2], best[3]));
  if constexpr (!kSeesNaNs) {
    return FoldLanes<Isa, T>(
        best[0], [&](const auto& a, const auto& b) { return kGreater(b, a); });
  }
  const V nan = is_nan ? Splat<Isa, T>(__builtin_nan("")) : best[0];
  return FoldLanes<Isa, T>(nan, [&](const auto& a, const auto& b) {
    return b != b ? b : kGreater(b, a);
  });
}

// Of four ways, each of so many vectors side by side: the greatest lane. Of
// equal ways the later one stays, of equal lanes the first.
template <class Isa, class T, bool kMax, int kParts>
inline T ExtremeOfWays(const Vector<Isa, T>* ways) {
  constexpr int kWidth = kLanes<Isa, T>;
  constexpr Greater<kMax> kGreater;
  T lane[kParts * kWidth];
  for (int part = 0; part < kParts; ++part) {
    const Vector<Isa, T>* way = ways + part;
    Store<Isa, T>(lane + part * kWidth,
                  kGreater(kGreater(way[0], way[kParts]),
                           kGreater(way[2 * kParts], way[3 * kParts])));
  }
  for (int i = 1; i < kParts * kWidth; ++i) {
    lane[0] = kGreater(lane[i], lane[0]);
  }
  return lane[0];
}

// Which zero wins where the extreme is 0: of vectors the later one, of single
// numbers the first. kParts: of the processor's vectors that are one of
// eager's.
template <class Isa, class T, bool kMax, int kParts = 1>
inline T SignedExtremeOf(const T* x, std::int64_t n) {
  using V = Vector<Isa, T>;
  constexpr int kWidth = kLanes<Isa, T>;
  constexpr int kVectors = 4 * kParts;
  constexpr Greater<kMax> kGreater;
  const auto first = [&](T a, T b) { return kGreater(b, a); };
  T extreme = kMax ? -__builtin_inf() : __builtin_inf();
  const std::int64_t whole = n / (kVectors * kWidth) * (kVectors * kWidth);
  if (whole > 0) {
    V best[kVectors];
    for (int i = 0; i < kVectors; ++i) best[i] = Load<Isa, T>(x + i * kWidth);
    for (std::int64_t i = kVectors * kWidth; i < whole; i += kWidth) {
      V& way = best[i / kWidth % kVectors];
      way = kGreater(way, Load<Isa, T>(x + i));
    }
    extreme = first(extreme, ExtremeOfWays<Isa, T, kMax, kParts>(best));
  }
  for (std::int64_t i = whole; i < n; ++i) extreme = first(extreme, x[i]);
  return extreme;
}

}  // namespace
}  // namespace tjit::rows

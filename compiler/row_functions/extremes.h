// The greatest and the smallest of one row. They do not depend on the order but
// for the sign of zero: if the extreme is 0, eager's order is repeated to find
// the sign.
// Tested by: tests/compiler/row_functions_test.cpp
#pragma once

#include "compiler/row_functions/lanes.h"

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

// Which zero wins where the extreme is 0: of vectors the later one, of single
// numbers the first.
template <class Isa, class T, bool kMax>
inline T SignedExtremeOf(const T* x, std::int64_t n) {
  using V = Vector<Isa, T>;
  constexpr int kWidth = kLanes<Isa, T>;
  constexpr int kWays = 4;
  constexpr Greater<kMax> kGreater;
  const auto first = [&](T a, T b) { return kGreater(b, a); };
  T extreme = kMax ? -__builtin_inf() : __builtin_inf();
  const std::int64_t whole = n / (kWays * kWidth) * (kWays * kWidth);
  if (whole > 0) {
    V best[kWays];
    for (int way = 0; way < kWays; ++way) {
      best[way] = Load<Isa, T>(x + way * kWidth);
    }
    for (std::int64_t i = kWays * kWidth; i < whole; i += kWidth) {
      V& way = best[i / kWidth % kWays];
      way = kGreater(way, Load<Isa, T>(x + i));
    }
    const V all =
        kGreater(kGreater(best[0], best[1]), kGreater(best[2], best[3]));
    T lane[kWidth];
    Store<Isa, T>(lane, all);
    for (int i = 1; i < kWidth; ++i) lane[0] = first(lane[0], lane[i]);
    extreme = first(extreme, lane[0]);
  }
  for (std::int64_t i = whole; i < n; ++i) extreme = first(extreme, x[i]);
  return extreme;
}

}  // namespace
}  // namespace tjit::rows

// Sums and sums of products, in sequential order: as the gradients of
// eager's norms add up. Of a row one vector after the other into one
// accumulator (softmax.h); of columns row after row, in as many parts as eager
// has threads, then the parts.
// Tested by: tests/compiler/functions/row_functions_test.cpp
#pragma once

#include "compiler/functions/row_functions/softmax.h"

namespace tjit::rows {
namespace {

template <class Isa, class T>
inline T SequentialSumOfRow(const T* x, std::int64_t n) {
  return SumSequential<Isa, T>(n, [&](std::int64_t i, int count) {
    return LoadSome<Isa, T>(x + i, count);
  });
}

// Note [Contraction] in rows.h.
template <class Isa, class T, bool kContracts>
inline T DotOfRow(const T* x, const T* y, std::int64_t n) {
  return SumSequential<Isa, T>(
      n,
      [&](std::int64_t i, int count) {
        return LoadSome<Isa, T>(x + i, count) * LoadSome<Isa, T>(y + i, count);
      },
      [&](const Vector<Isa, T>& sum, std::int64_t i, int count) {
        const auto a = LoadSome<Isa, T>(x + i, count);
        const auto b = LoadSome<Isa, T>(y + i, count);
        if (count == kLanes<Isa, T>) return sum + a * b;
        return MulAdd<Isa, kContracts>(a, b, sum);
      });
}

// Of columns: each part is in memory between two rows, so all of its products
// may be contracted.
template <class Isa, class T, bool kIsDot, bool kContracts>
struct SequentialColumns {
  using Type = T;
  using V = Vector<Isa, T>;

  static void Begin(std::int64_t n, TjitColumnState* state) {
    SetToZero<Isa, T>(PartOf(state), 2 * n);
  }

  static void Add(std::int64_t rows, std::int64_t n, const T* x,
                  TjitColumnState* state) {
    const T* y = static_cast<const T*>(state->b);
    const auto parts = static_cast<std::int64_t>(state->number);
    const std::int64_t used = parts < state->rows ? parts : state->rows;
    const std::int64_t step = (state->rows + used - 1) / used;
    const std::int64_t first = state->done;
    const std::int64_t end = first + rows;
    for (std::int64_t i = first; i < end;) {
      const std::int64_t next = (i / step + 1) * step;
      const std::int64_t to = next < end ? next : end;
      const std::int64_t at = (i - first) * n;
      AddRows(to - i, n, x + at, kIsDot ? y + at : nullptr, PartOf(state));
      if (to == next) Finish(n, state);
      i = to;
    }
    state->done = end;
  }

  static void End(std::int64_t n, TjitColumnState* state, T* out) {
    Finish(n, state);
    const T* total = PartOf(state) + n;
    for (std::int64_t j = 0; j < n; ++j) out[j] = total[j];
  }

 private:
  // The part's sums, then those of all parts before it.
  static T* PartOf(TjitColumnState* state) {
    return reinterpret_cast<T*>(state + 1);
  }

  static void Finish(std::int64_t n, TjitColumnState* state) {
    T* part = PartOf(state);
    AddTo<Isa, T>(part + n, part, n);
    SetToZero<Isa, T>(part, n);
  }

  static V With(const V& sum, const V& x, const V& y) {
    if constexpr (kIsDot) return MulAdd<Isa, kContracts>(x, y, sum);
    return sum + x;
  }

  static void AddRows(std::int64_t rows, std::int64_t n, const T* x, const T* y,
                      T* sums) {
    constexpr int kWidth = kLanes<Isa, T>;
    constexpr int kWays = 4;
    std::int64_t j = 0;
    for (; j + kWays * kWidth <= n; j += kWays * kWidth) {
      V sum[kWays];
      for (int way = 0; way < kWays; ++way) {
        sum[way] = Load<Isa, T>(sums + j + way * kWidth);
      }
      for (std::int64_t i = 0; i < rows; ++i) {
        for (int way = 0; way < kWays; ++way) {
          const std::int64_t at = i * n + j + way * kWidth;
          V b{};
          if constexpr (kIsDot) b = Load<Isa, T>(y + at);
          sum[way] = With(sum[way], Load<Isa, T>(x + at), b);
        }
      }
      for (int way = 0; way < kWays; ++way) {
        Store<Isa, T>(sums + j + way * kWidth, sum[way]);
      }
    }
    for (; j < n; j += kWidth) {
      const int count = static_cast<int>(n - j < kWidth ? n - j : kWidth);
      V sum = LoadSome<Isa, T>(sums + j, count);
      for (std::int64_t i = 0; i < rows; ++i) {
        V b{};
        if constexpr (kIsDot) b = LoadSome<Isa, T>(y + i * n + j, count);
        sum = With(sum, LoadSome<Isa, T>(x + i * n + j, count), b);
      }
      StoreSome<Isa, T>(sums + j, count, sum);
    }
  }
};

}  // namespace
}  // namespace tjit::rows

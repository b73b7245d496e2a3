// Softmax, log_softmax and their gradients of rows. They go over a row as eager
// does: one vector after the other into one accumulator, the lanes folded at
// the end, rows shorter than a vector one number after the other. A row's
// greatest element is only subtracted, so the sign of a zero does not matter,
// nor that of numbers beside a NaN: its exponential is in the sum, which makes
// the whole row NaN.
//
// Of short rows some go through each pass at once: the processor waits for the
// end of a row (its lanes are folded, its sum is divided by) while it has
// nothing else to do.
// Tested by: tests/compiler/functions/row_functions_test.cpp
#pragma once

#include "compiler/functions/row_functions/extremes.h"

namespace tjit::rows {
namespace {

// Adds up values that come by vectors. value(i, count) are those of the
// elements from i on; step(sum, i, count) adds them to the sum, and so does
// steps(&sum, &i) with as many vectors as it likes.
template <class Isa, class T, class Value, class Step, class Steps>
inline T SumSequential(std::int64_t n, const Value& value, const Step& step,
                       const Steps& steps) {
  constexpr int kWidth = kLanes<Isa, T>;
  if (n < kWidth) {
    T lane[kWidth];
    Store<Isa, T>(lane, value(0, static_cast<int>(n)));
    T sum = lane[0];
    for (int i = 1; i < n; ++i) sum += lane[i];
    return sum;
  }
  Vector<Isa, T> sum = value(0, kWidth);
  std::int64_t i = kWidth;
  steps(&sum, &i);
  for (; i + kWidth <= n; i += kWidth) sum = step(sum, i, kWidth);
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    sum = Isa::FirstOf(rest, step(sum, i, rest), sum);
  }
  return FoldLanes<Isa, T>(sum, Plus());
}

template <class Isa, class T, class Value, class Step>
inline T SumSequential(std::int64_t n, const Value& value, const Step& step) {
  return SumSequential<Isa, T>(n, value, step,
                               [](Vector<Isa, T>*, std::int64_t*) {});
}

template <class Isa, class T, class Value>
inline T SumSequential(std::int64_t n, const Value& value) {
  return SumSequential<Isa, T>(
      n, value, [&](const Vector<Isa, T>& sum, std::int64_t i, int count) {
        return sum + value(i, count);
      });
}

constexpr std::int64_t kShortRow = 256;

template <class Isa, class T>
inline T GreatestBesideNaNs(const T* x, std::int64_t n) {
  return ExtremeOf<Isa, T, true, false>(x, n);
}

// Note [Loads before stores]. A processor takes a load for one of what was just
// stored where the low 12 bits of both addresses, and a few others, are the
// same, and waits for it. If y lies a vector or a few behind x, modulo 4096,
// each exponential waits for the one before: softmax takes up to three times as
// long (Zen 4), in one process of fourteen, as stack and heap come to lie. Some
// vectors are therefore loaded before the first is stored.

// The sum of e^(x - greatest), which go to y if asked for.
template <class Isa, class T, bool kStores>
inline T SumOfExps(const T* x, std::int64_t n, T greatest, T* y) {
  const auto exps = [&](std::int64_t i, int count) {
    const Vector<Isa, T> e =
        Isa::ExpUpToZero(LoadSome<Isa, T>(x + i, count) - greatest);
    if constexpr (kStores) StoreSome<Isa, T>(y + i, count, e);
    return e;
  };
  return SumSequential<Isa, T>(
      n, exps,
      [&](const Vector<Isa, T>& sum, std::int64_t i, int count) {
        return sum + exps(i, count);
      },
      [&](Vector<Isa, T>* sum, std::int64_t* i) {
        if constexpr (!kStores) return;
        constexpr int kAtOnce = 4;
        constexpr int kWidth = kLanes<Isa, T>;
        for (; *i + kAtOnce * kWidth <= n; *i += kAtOnce * kWidth) {
          Vector<Isa, T> e[kAtOnce];
          for (int k = 0; k < kAtOnce; ++k) {
            e[k] = Load<Isa, T>(x + *i + k * kWidth);
          }
          for (int k = 0; k < kAtOnce; ++k) {
            e[k] = Isa::ExpUpToZero(e[k] - greatest);
            Store<Isa, T>(y + *i + k * kWidth, e[k]);
            *sum = *sum + e[k];
          }
        }
      });
}

template <class Isa, class T>
inline void SoftmaxOfRows(std::int64_t rows, std::int64_t n, const T* x, T* y) {
  constexpr int kBlock = 8;
  const std::int64_t block = n <= kShortRow ? kBlock : 1;
  for (std::int64_t done = 0; done < rows; done += block) {
    const std::int64_t left = rows - done;
    const int count = static_cast<int>(left < block ? left : block);
    T greatest[kBlock];
    T factor[kBlock];
    for (int row = 0; row < count; ++row) {
      greatest[row] = GreatestBesideNaNs<Isa, T>(x + row * n, n);
    }
    for (int row = 0; row < count; ++row) {
      const std::int64_t at = row * n;
      factor[row] =
          1 / SumOfExps<Isa, T, true>(x + at, n, greatest[row], y + at);
    }
    x += count * n;
    for (int row = 0; row < count; ++row, y += n) {
      ForVectors<Isa, T>(n, [&](std::int64_t i, int some) {
        StoreSome<Isa, T>(y + i, some,
                          LoadSome<Isa, T>(y + i, some) * factor[row]);
      });
    }
  }
}

// As many short rows at once as a vector has lanes: one logarithm for all.
template <class Isa, class T>
inline void LogSoftmaxOfRows(std::int64_t rows, std::int64_t n, const T* x,
                             T* y) {
  constexpr int kWidth = kLanes<Isa, T>;
  const std::int64_t block = n <= kShortRow ? kWidth : 1;
  for (std::int64_t done = 0; done < rows; done += block) {
    const std::int64_t left = rows - done;
    const int count = static_cast<int>(left < block ? left : block);
    T greatest[kWidth] = {};
    T log_sum[kWidth] = {};
    for (int row = 0; row < count; ++row) {
      const T* in = x + row * n;
      greatest[row] = GreatestBesideNaNs<Isa, T>(in, n);
      log_sum[row] = SumOfExps<Isa, T, false>(in, n, greatest[row], nullptr);
    }
    Store<Isa, T>(log_sum, Isa::Log(Load<Isa, T>(log_sum)));
    for (int row = 0; row < count; ++row, x += n, y += n) {
      ForVectors<Isa, T>(n, [&](std::int64_t i, int some) {
        StoreSome<Isa, T>(
            y + i, some,
            LoadSome<Isa, T>(x + i, some) - greatest[row] - log_sum[row]);
      });
    }
  }
}

template <class Isa, class T, bool kContracts>
inline void SoftmaxBackwardOfRow(const T* grad, const T* y, std::int64_t n,
                                 T* out) {
  const T sum = SumSequential<Isa, T>(
      n,
      [&](std::int64_t i, int count) {
        return LoadSome<Isa, T>(grad + i, count) *
               LoadSome<Isa, T>(y + i, count);
      },
      [&](const Vector<Isa, T>& sum, std::int64_t i, int count) {
        const auto a = LoadSome<Isa, T>(grad + i, count);
        const auto b = LoadSome<Isa, T>(y + i, count);
        if (count == kLanes<Isa, T>) return sum + a * b;
        return MulAdd<Isa, kContracts>(a, b, sum);
      });
  ForVectors<Isa, T>(n, [&](std::int64_t i, int count) {
    StoreSome<Isa, T>(out + i, count,
                      (LoadSome<Isa, T>(grad + i, count) - sum) *
                          LoadSome<Isa, T>(y + i, count));
  });
}

template <class Isa, class T, bool kContracts>
inline void LogSoftmaxBackwardOfRow(const T* grad, const T* y, std::int64_t n,
                                    T* out) {
  const T sum = SumSequential<Isa, T>(n, [&](std::int64_t i, int count) {
    return LoadSome<Isa, T>(grad + i, count);
  });
  const Vector<Isa, T> minus_sum = -Splat<Isa, T>(sum);
  ForVectors<Isa, T>(n, [&](std::int64_t i, int count) {
    const Vector<Isa, T> e = Isa::Exp(LoadSome<Isa, T>(y + i, count));
    StoreSome<Isa, T>(out + i, count,
                      MulAdd<Isa, kContracts>(
                          e, minus_sum, LoadSome<Isa, T>(grad + i, count)));
  });
}

}  // namespace
}  // namespace tjit::rows

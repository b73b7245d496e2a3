// Variances in eager's order: Welford's formula over the elements one after the
// other, in double whatever the type, nothing contracted.
// Tested by: tests/compiler/functions/row_functions_test.cpp
#pragma once

#include "compiler/functions/row_functions/columns.h"
#include "compiler/functions/row_functions/quotients.h"

namespace tjit::rows {
namespace {

// sqrt(squares / divisor) or without the root, rounded to T.
template <class Isa, class T, bool kIsStd>
inline T VarOf(double squares, std::int64_t n, double correction) {
  const auto count = static_cast<double>(n);
  const double var = squares / (count > correction ? count - correction : 0);
  return static_cast<T>(kIsStd ? Isa::Sqrt(var) : var);
}

// Some rows side by side, as each element waits for the one before.
template <class Isa, class T, bool kIsStd>
inline void VarOfRows(std::int64_t rows, std::int64_t n, const T* x,
                      double correction, T* out) {
  constexpr int kTogether = kLanes<Isa, double>;
  for (std::int64_t first = 0; first < rows; first += kTogether) {
    const std::int64_t left = rows - first;
    const int count = left < kTogether ? static_cast<int>(left) : kTogether;
    Vector<Isa, double> mean = {};
    Vector<Isa, double> squares = {};
    for (std::int64_t i = 0; i < n; ++i) {
      Vector<Isa, double> value = {};
      for (int row = 0; row < count; ++row) {
        value[row] = static_cast<double>(x[(first + row) * n + i]);
      }
      const Vector<Isa, double> delta = value - mean;
      mean += delta / static_cast<double>(i + 1);
      squares += delta * (value - mean);
    }
    for (int row = 0; row < count; ++row) {
      out[first + row] = VarOf<Isa, T, kIsStd>(squares[row], n, correction);
    }
  }
}

// As many elements of T as a vector of double has.
template <class Isa, class T>
inline Vector<Isa, double> LoadDoubles(const T* x) {
  if constexpr (sizeof(T) == 8) {
    return Load<Isa, double>(x);
  } else {
    return Isa::Widen(x);
  }
}

// Of the rows that come next, if these lie one behind the other in memory:
// while this tile is computed, the lines of the next one arrive.
template <class Isa, class T, int kVectors>
inline void PrefetchGroup(const T* x) {
  constexpr int kLine = 64 / sizeof(T), kCount = kVectors * kLanes<Isa, double>;
  for (int i = 0; i < kCount; i += kLine) __builtin_prefetch(x + i);
}

// `kTakesInfinity`: the means are looked at.
template <class Isa, class T, bool kIsStd, bool kTakesInfinity = false>
struct VarColumns {
  using Type = T;
  using V = Vector<Isa, double>;
  static constexpr std::int64_t kMostRows = 32;  // at a time

  static double* MeansOf(TjitColumnState* state) {
    return reinterpret_cast<double*>(state + 1);
  }

  static void Begin(std::int64_t n, TjitColumnState* state) {
    SetToZero<Isa, double>(MeansOf(state), 2 * n);
  }

  // kVectors vectors of columns. The next tile is `ahead` rows behind x.
  template <int kVectors>
  static void AddGroup(std::int64_t rows, std::int64_t ahead, std::int64_t n,
                       const T* x, const Inverse* inverses, double* means,
                       double* squares) {
    constexpr int kWidth = kLanes<Isa, double>;
    V mean[kVectors], square[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      mean[v] = Load<Isa, double>(means + v * kWidth);
      square[v] = Load<Isa, double>(squares + v * kWidth);
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      PrefetchGroup<Isa, T, kVectors>(x + (ahead + i) * n);
      for (int v = 0; v < kVectors; ++v) {
        const V value = LoadDoubles<Isa, T>(x + i * n + v * kWidth);
        const V delta = value - mean[v];
        mean[v] += Quotient<Isa, T, kTakesInfinity>(delta, inverses[i]);
        square[v] += delta * (value - mean[v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      Store<Isa, double>(means + v * kWidth, mean[v]);
      Store<Isa, double>(squares + v * kWidth, square[v]);
    }
  }

  static void Add(std::int64_t rows, std::int64_t n, const T* x,
                  TjitColumnState* state) {
    for (std::int64_t i = 0; i < rows; i += kMostRows) {
      const std::int64_t left = rows - i;
      AddRows(left < kMostRows ? left : kMostRows, rows, n, x + i * n, state);
    }
  }

  static void AddRows(std::int64_t rows, std::int64_t ahead, std::int64_t n,
                      const T* x, TjitColumnState* state) {
    constexpr int kWidth = kLanes<Isa, double>;
    constexpr int kVectors = Isa::kBytes / 8;  // as the registers allow
    const std::int64_t done = state->done;
    double* means = MeansOf(state);
    double* squares = means + n;
    // A division for each row, not for each group of each row, which is a
    // fifth of the time of a few hundred columns.
    Inverse inverses[kMostRows];
    for (std::int64_t i = 0; n >= kWidth && i < rows; ++i) {
      inverses[i] = InverseOf<Isa>(static_cast<double>(done + i + 1));
    }
    std::int64_t j = 0;
    for (; j + kVectors * kWidth <= n; j += kVectors * kWidth) {
      AddGroup<kVectors>(rows, ahead, n, x + j, inverses, means + j,
                         squares + j);
    }
    for (; j + kWidth <= n; j += kWidth) {
      AddGroup<1>(rows, ahead, n, x + j, inverses, means + j, squares + j);
    }
    for (; j < n; ++j) {
      for (std::int64_t i = 0; i < rows; ++i) {
        const auto value = static_cast<double>(x[i * n + j]);
        const double delta = value - means[j];
        means[j] += delta / static_cast<double>(done + i + 1);
        squares[j] += delta * (value - means[j]);
      }
    }
    state->done = done + rows;
  }

  static void End(std::int64_t n, TjitColumnState* state, T* out) {
    const double* squares = MeansOf(state) + n;
    for (std::int64_t j = 0; j < n; ++j) {
      out[j] = VarOf<Isa, T, kIsStd>(squares[j], state->rows, state->number);
    }
  }
};

}  // namespace
}  // namespace tjit::rows

// Sums of columns in the order of eager on one thread, row by row as they come:
// one cascade for each column, as long as the columns fill four vectors (or
// are fewer than fill one: four), then four interleaved ones for each of the
// columns that are left.
// Tested by: tests/compiler/functions/row_functions_test.cpp
#pragma once

#include "compiler/functions/row_functions/sums.h"

namespace tjit::rows {
namespace {

// A TjitColumnFn. Columns: Begin(n, state), Add(rows, n, x, state),
// End(n, state, out).
template <class Columns>
void ColumnsFn(std::int64_t rows, std::int64_t n, const void* a,
               TjitColumnState* state, void* out) {
  using T = typename Columns::Type;
  if (out != nullptr) {
    Columns::End(n, state, static_cast<T*>(out));
  } else if (a == nullptr) {
    state->done = 0;
    Columns::Begin(n, state);
  } else {
    Columns::Add(rows, n, static_cast<const T*>(a), state);
  }
}

// x[j] += y[j] for j < n.
template <class Isa, class T>
inline void AddTo(T* x, const T* y, std::int64_t n) {
  ForVectors<Isa, T>(n, [&](std::int64_t j, int count) {
    StoreSome<Isa, T>(
        x + j, count,
        LoadSome<Isa, T>(x + j, count) + LoadSome<Isa, T>(y + j, count));
  });
}

template <class Isa, class T>
inline void SetToZero(T* x, std::int64_t n) {
  ForVectors<Isa, T>(n, [&](std::int64_t j, int count) {
    StoreSome<Isa, T>(x + j, count, Vector<Isa, T>{});
  });
}

// The same for `rows` rows of y, each `stride` behind the one before, of the
// groups of kVectors vectors of columns from `j` on. Where they end.
template <class Isa, class T, int kVectors>
inline std::int64_t AddGroupsTo(T* x, const T* y, std::int64_t j,
                                std::int64_t n, std::int64_t rows,
                                std::int64_t stride) {
  constexpr int kWidth = kLanes<Isa, T>;
  for (; j + kVectors * kWidth <= n; j += kVectors * kWidth) {
    Vector<Isa, T> sum[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = Load<Isa, T>(x + j + v * kWidth);
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      for (int v = 0; v < kVectors; ++v) {
        sum[v] += Load<Isa, T>(y + i * stride + j + v * kWidth);
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      Store<Isa, T>(x + j + v * kWidth, sum[v]);
    }
  }
  return j;
}

// Of all columns.
template <class Isa, class T>
inline void AddRowsTo(T* x, const T* y, std::int64_t n, std::int64_t rows,
                      std::int64_t stride) {
  std::int64_t j = AddGroupsTo<Isa, T, 8>(x, y, 0, n, rows, stride);
  j = AddGroupsTo<Isa, T, 4>(x, y, j, n, rows, stride);
  j = AddGroupsTo<Isa, T, 1>(x, y, j, n, rows, stride);
  if (j == n) return;
  for (std::int64_t i = 0; i < rows; ++i) {
    AddTo<Isa, T>(x + j, y + i * stride + j, n - j);
  }
}

// The sums of some columns on all levels (sums.h), one level behind the other.
template <class Isa, class T>
struct CascadeOfColumns {
  static constexpr int kLevels = 4;

  // For sums of `rows` rows in all.
  CascadeOfColumns(T* sums, std::int64_t columns, std::int64_t rows)
      : sums(sums),
        columns(columns),
        power(CeilLog2(rows) / kLevels < 4 ? 4 : CeilLog2(rows) / kLevels) {}

  std::int64_t step() const { return std::int64_t{1} << power; }
  std::int64_t count() const { return kLevels * columns; }

  // When `done` rows are in the sums.
  void Carry(std::int64_t done) const {
    for (int at = 1; at < kLevels; ++at) {
      T* below = sums + (at - 1) * columns;
      AddTo<Isa, T>(below + columns, below, columns);
      SetToZero<Isa, T>(below, columns);
      if ((done & ((step() - 1) << (at * power))) != 0) return;
    }
  }

  // All to the first level.
  void Fold() const {
    for (int at = 1; at < kLevels; ++at) {
      AddTo<Isa, T>(sums, sums + at * columns, columns);
    }
  }

  T* sums;
  std::int64_t columns;
  int power;
};

// kWidth: lanes of eager's vectors; kLeast: the columns from which on it has
// them.
template <class Isa, class T, bool kIsMean, int kWidth = kLanes<Isa, T>,
          int kLeast = kWidth>
struct SumColumns {
  using Type = T;
  static constexpr int kWays = 4;

  // The columns with one cascade each.
  static std::int64_t Plain(std::int64_t n) {
    const std::int64_t group = n < kLeast ? kWays : kWays * kWidth;
    return n / group * group;
  }

  static void Begin(std::int64_t n, TjitColumnState* state) {
    const Sums sums(n, state);
    SetToZero<Isa, T>(sums.plain.sums,
                      sums.plain.count() + sums.others.count());
  }

  static void Add(std::int64_t rows, std::int64_t n, const T* x,
                  TjitColumnState* state) {
    const Sums sums(n, state);
    const std::int64_t end = state->done + rows;
    const std::int64_t first = state->done;
    for (std::int64_t i = first; i < end;) {
      const std::int64_t step = sums.plain.step();
      const std::int64_t next = (i / step + 1) * step;
      const std::int64_t to = next < end ? next : end;
      AddRowsTo<Isa, T>(sums.plain.sums, x + (i - first) * n,
                        sums.plain.columns, to - i, n);
      if (to == next) sums.plain.Carry(next);
      i = to;
    }
    if (sums.width > 0) {
      for (std::int64_t i = first; i < end; ++i) {
        AddOthers(sums, i, x + (i - first) * n + sums.plain.columns);
      }
    }
    state->done = end;
  }

  static void End(std::int64_t n, TjitColumnState* state, T* out) {
    const Sums sums(n, state);
    sums.plain.Fold();
    if (sums.in_ways == state->rows) sums.others.Fold();
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t other = j - sums.plain.columns;
      T sum = other < 0 ? sums.plain.sums[j] : sums.others.sums[other];
      for (int way = 1; other >= 0 && way < kWays; ++way) {
        sum += sums.others.sums[way * sums.width + other];
      }
      out[j] = kIsMean ? sum / static_cast<T>(state->rows) : sum;
    }
  }

 private:
  struct Sums {
    Sums(std::int64_t n, TjitColumnState* state)
        : width(n - Plain(n)),
          in_ways(state->rows / kWays * kWays),
          plain(reinterpret_cast<T*>(state + 1), n - width, state->rows),
          others(plain.sums + plain.count(), kWays * width,
                 state->rows / kWays) {}
    std::int64_t width;    // columns that are not plain
    std::int64_t in_ways;  // rows that the ways share
    CascadeOfColumns<Isa, T> plain;
    CascadeOfColumns<Isa, T> others;  // a column of each way
  };

  // Rows go to the ways one after the other; what is left is added to the first
  // way's sum.
  static void AddOthers(const Sums& sums, std::int64_t i, const T* x) {
    if (i == sums.in_ways) sums.others.Fold();
    const std::int64_t way = i < sums.in_ways ? i % kWays : 0;
    AddTo<Isa, T>(sums.others.sums + way * sums.width, x, sums.width);
    const std::int64_t done = (i + 1) / kWays;
    if (i < sums.in_ways && way == kWays - 1 &&
        done % sums.others.step() == 0) {
      sums.others.Carry(done);
    }
  }
};

}  // namespace
}  // namespace tjit::rows

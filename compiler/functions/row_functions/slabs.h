// Softmax, log_softmax and their gradients along the rows of a slab: of each
// column, row after row. Eager goes through whole vectors of columns, then
// through the columns behind them one by one, which differ in the exp alone:
// there it is libm's. As for rows (softmax.h), NaN and the sign of a greatest
// zero need no care.
//
// Columns are taken some vectors at a time, through all passes: what there is
// one of per column stays in registers. Those behind the vectors one by one, as
// a call in the midst of vectors costs their registers.
// Tested by: tests/compiler/functions/row_functions_test.cpp
// Source: aten/src/ATen/native/cpu/SoftMaxKernel.cpp of libtorch 2.13
// (vec_softmax, serial_vec_logsoftmax_range, vec_softmax_backward,
// vec_log_softmax_backward).
#pragma once

#include "compiler/functions/row_functions/softmax.h"

namespace tjit::rows {
namespace {

inline float LibmExp(float x) { return __builtin_expf(x); }
inline double LibmExp(double x) { return __builtin_exp(x); }

// Rows of an operand, `stride` elements from one to the next.
template <class T>
struct SlabRows {
  T* at;
  std::int64_t stride;
};

// What of a slab goes through all passes at once: kWays vectors of columns from
// `first` on; a single one may be short.
template <class Isa, class T, int kVectors>
struct Strip {
  using V = Vector<Isa, T>;
  static constexpr int kWays = kVectors;

  V Load(const SlabRows<const T>& x, std::int64_t row, int way) const {
    const T* from = x.at + row * x.stride + first + way * kLanes<Isa, T>;
    if constexpr (kWays == 1) return LoadSome<Isa, T>(from, count);
    return rows::Load<Isa, T>(from);
  }
  void Store(const SlabRows<T>& y, std::int64_t row, int way,
             const V& v) const {
    T* to = y.at + row * y.stride + first + way * kLanes<Isa, T>;
    if constexpr (kWays == 1) return StoreSome<Isa, T>(to, count, v);
    rows::Store<Isa, T>(to, v);
  }
  static V ExpUpToZero(const V& x) { return Isa::ExpUpToZero(x); }
  static V Exp(const V& x) { return Isa::Exp(x); }
  static V Log(const V& x) { return Isa::Log(x); }

  std::int64_t rows;
  std::int64_t first;
  int count;  // of a single vector
};

// One column behind the whole vectors.
template <class Isa, class T>
struct Column {
  using V = T;
  static constexpr int kWays = 1;

  T Load(const SlabRows<const T>& x, std::int64_t row, int /*way*/) const {
    return x.at[row * x.stride + first];
  }
  void Store(const SlabRows<T>& y, std::int64_t row, int /*way*/, T v) const {
    y.at[row * y.stride + first] = v;
  }
  static T ExpUpToZero(T x) { return LibmExp(x); }
  static T Exp(T x) { return LibmExp(x); }
  static T Log(T x) { return Isa::Log(Splat<Isa, T>(x))[0]; }

  std::int64_t rows;
  std::int64_t first;
};

// step(row, way) for each row and way, row after row.
template <class Part, class Step>
inline void ForRows(const Part& part, const Step& step) {
  for (std::int64_t row = 0; row < part.rows; ++row) {
    for (int way = 0; way < Part::kWays; ++way) step(row, way);
  }
}

template <class Part, class T>
inline void GreatestOfRows(const Part& part, const SlabRows<const T>& x,
                           typename Part::V* greatest) {
  for (int way = 0; way < Part::kWays; ++way) {
    greatest[way] = part.Load(x, 0, way);
  }
  ForRows(part, [&](std::int64_t row, int way) {
    greatest[way] = Greater<true>()(part.Load(x, row, way), greatest[way]);
  });
}

// Adds up e^(x - greatest), and hands each to take(row, way, e).
template <class Part, class T, class Take>
inline void ExpsOfRows(const Part& part, const SlabRows<const T>& x,
                       const typename Part::V* greatest, typename Part::V* sum,
                       const Take& take) {
  for (int way = 0; way < Part::kWays; ++way) sum[way] = typename Part::V{};
  ForRows(part, [&](std::int64_t row, int way) {
    const auto e = Part::ExpUpToZero(part.Load(x, row, way) - greatest[way]);
    take(row, way, e);
    sum[way] += e;
  });
}

struct SlabSoftmax {
  static constexpr bool kHasExp = true;

  template <class Isa, class Part, class T>
  static void Run(const Part& part, const SlabRows<const T>& x,
                  const SlabRows<const T>& /*b*/, const SlabRows<T>& y) {
    using V = typename Part::V;
    V greatest[Part::kWays], sum[Part::kWays];
    GreatestOfRows(part, x, greatest);
    ExpsOfRows(part, x, greatest, sum, [&](std::int64_t row, int way, V e) {
      part.Store(y, row, way, e);
    });
    const SlabRows<const T> exps = {y.at, y.stride};
    ForRows(part, [&](std::int64_t row, int way) {
      part.Store(y, row, way, part.Load(exps, row, way) / sum[way]);
    });
  }
};

struct SlabLogSoftmax {
  static constexpr bool kHasExp = true;

  template <class Isa, class Part, class T>
  static void Run(const Part& part, const SlabRows<const T>& x,
                  const SlabRows<const T>& /*b*/, const SlabRows<T>& y) {
    using V = typename Part::V;
    V greatest[Part::kWays], log[Part::kWays];
    GreatestOfRows(part, x, greatest);
    ExpsOfRows(part, x, greatest, log, [](std::int64_t, int, const V&) {});
    for (V& sum : log) sum = Part::Log(sum);
    ForRows(part, [&](std::int64_t row, int way) {
      part.Store(y, row, way,
                 part.Load(x, row, way) - greatest[way] - log[way]);
    });
  }
};

// Sums are in memory between two rows, so all products may be contracted
// (Note [Contraction] in rows.h).
template <bool kContracts>
struct SlabSoftmaxBackward {
  static constexpr bool kHasExp = false;

  template <class Isa, class Part, class T>
  static void Run(const Part& part, const SlabRows<const T>& gradient,
                  const SlabRows<const T>& y, const SlabRows<T>& out) {
    typename Part::V sum[Part::kWays] = {};
    ForRows(part, [&](std::int64_t row, int way) {
      sum[way] = MulAdd<Isa, kContracts>(part.Load(gradient, row, way),
                                         part.Load(y, row, way), sum[way]);
    });
    ForRows(part, [&](std::int64_t row, int way) {
      part.Store(
          out, row, way,
          part.Load(y, row, way) * (part.Load(gradient, row, way) - sum[way]));
    });
  }
};

template <bool kContracts>
struct SlabLogSoftmaxBackward {
  static constexpr bool kHasExp = true;

  template <class Isa, class Part, class T>
  static void Run(const Part& part, const SlabRows<const T>& gradient,
                  const SlabRows<const T>& y, const SlabRows<T>& out) {
    using V = typename Part::V;
    V sum[Part::kWays] = {};
    ForRows(part, [&](std::int64_t row, int way) {
      sum[way] += part.Load(gradient, row, way);
    });
    ForRows(part, [&](std::int64_t row, int way) {
      const V e = Part::Exp(part.Load(y, row, way));
      const V minus_sum = -sum[way];
      part.Store(
          out, row, way,
          MulAdd<Isa, kContracts>(e, minus_sum, part.Load(gradient, row, way)));
    });
  }
};

// A TjitSlabFn. Slab: one of those above.
template <class Isa, class T, class Slab>
void SlabFn(std::int64_t rows, std::int64_t n, const void* a,
            std::int64_t a_stride, const void* b, std::int64_t b_stride,
            void* out, std::int64_t first, std::int64_t columns) {
  constexpr int kWidth = kLanes<Isa, T>;
  constexpr int kWays = 4;
  const SlabRows<const T> x = {static_cast<const T*>(a), a_stride};
  const SlabRows<const T> y = {static_cast<const T*>(b), b_stride};
  const SlabRows<T> z = {static_cast<T*>(out), n};
  const std::int64_t vectors =
      Slab::kHasExp ? columns / kWidth * kWidth - first : n;
  const std::int64_t whole = vectors < 0 ? 0 : vectors < n ? vectors : n;
  std::int64_t j = 0;
  for (; j + kWays * kWidth <= whole; j += kWays * kWidth) {
    Slab::template Run<Isa>(Strip<Isa, T, kWays>{rows, j, kWidth}, x, y, z);
  }
  for (; j < whole; j += kWidth) {
    const std::int64_t left = whole - j < kWidth ? whole - j : kWidth;
    Slab::template Run<Isa>(Strip<Isa, T, 1>{rows, j, static_cast<int>(left)},
                            x, y, z);
  }
  for (j = whole; j < n; ++j) {
    Slab::template Run<Isa>(Column<Isa, T>{rows, j}, x, y, z);
  }
}

}  // namespace
}  // namespace tjit::rows

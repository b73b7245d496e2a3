// Row functions by themselves: what their results are where rounding plays no
// part, that rows do not depend on one another, and how tables agree.
#include "compiler/functions/row_functions.h"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "compiler/ir/op.h"

namespace tjit {
namespace {

// Stand-ins for SLEEF: libm's functions, lane by lane.
#define TJIT_LANES(name, target_name, V, T, function) \
  __attribute__((target(target_name))) V name(V v) {  \
    T lane[sizeof(V) / sizeof(T)];                    \
    std::memcpy(lane, &v, sizeof(v));                 \
    for (T & x : lane) x = function(x);               \
    std::memcpy(&v, lane, sizeof(v));                 \
    return v;                                         \
  }
TJIT_LANES(ExpF32x8, "avx2", __m256, float, std::exp)
TJIT_LANES(ExpF64x4, "avx2", __m256d, double, std::exp)
TJIT_LANES(LogF32x8, "avx2", __m256, float, std::log)
TJIT_LANES(LogF64x4, "avx2", __m256d, double, std::log)
TJIT_LANES(ExpF32x16, "avx512f", __m512, float, std::exp)
TJIT_LANES(ExpF64x8, "avx512f", __m512d, double, std::exp)
TJIT_LANES(LogF32x16, "avx512f", __m512, float, std::log)
TJIT_LANES(LogF64x8, "avx512f", __m512d, double, std::log)
#undef TJIT_LANES

template <class F>
void* Address(F* function) {
  return reinterpret_cast<void*>(function);
}

// Those that this processor runs.
std::vector<const RowTable*> Tables() {
  std::vector<const RowTable*> tables;
  tables.reserve(3);
  tables.push_back(&kPlainRows);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    *kAvx2Rows.math = {Address(ExpF32x8), Address(ExpF64x4), Address(LogF32x8),
                       Address(LogF64x4)};
    tables.push_back(&kAvx2Rows);
  }
  if (__builtin_cpu_supports("avx512f")) {
    *kAvx512Rows.math = {Address(ExpF32x16), Address(ExpF64x8),
                         Address(LogF32x16), Address(LogF64x8)};
    tables.push_back(&kAvx512Rows);
  }
  return tables;
}

const std::int64_t kLengths[] = {
    1,  2,  3,   4,   5,   7,   8,   9,   15,  16,  17,   31,   33,   63,
    64, 65, 100, 127, 128, 129, 255, 256, 257, 511, 1000, 1024, 4097, 70000};

std::string NameOfFunction(const RowTable& table, const RowFunction& f) {
  return std::string(table.capability) + " " + NameOf(f.what) +
         (f.is_double ? " f64" : " f32") + (f.contracts ? " contracting" : "");
}

// Calls test(f, T()) for each function of an op.
template <class Test>
void ForAll(const AxisOp& what, const Test& test) {
  for (const RowTable* table : Tables()) {
    for (int i = 0; i < table->count; ++i) {
      const RowFunction& f = table->functions[i];
      if (f.what != what) continue;
      SCOPED_TRACE(NameOfFunction(*table, f));
      if (f.is_double) {
        test(f, double());
      } else {
        test(f, float());
      }
    }
  }
}

// Integers that sum up without rounding.
template <class T>
std::vector<T> Integers(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> x(static_cast<std::size_t>(n));
  for (T& v : x) v = static_cast<T>(static_cast<int>(random() % 201) - 100);
  return x;
}

TEST(RowFunctionsTest, EachTableHasAllOps) {
  for (const RowTable* table : Tables()) {
    int seen[kAxisOpCount][2] = {};
    for (int i = 0; i < table->count; ++i) {
      const RowFunction& f = table->functions[i];
      ASSERT_GE(IndexOf(f.what), 0) << NameOfFunction(*table, f);
      ++seen[IndexOf(f.what)][f.is_double ? 1 : 0];
      EXPECT_STRNE(NameOf(f.what), "");
    }
    for (const AxisOp& what : kAxisOps) {
      const auto [floats, doubles] = seen[IndexOf(what)];
      EXPECT_GE(floats, 1) << table->capability;
      EXPECT_EQ(doubles > 0, !what.of_halves) << table->capability;
    }
  }
}

// A verdict on disk names a function by its number.
TEST(RowFunctionsTest, EachHasANumberThatStays) {
  for (int i = 0; i < kAxisOpCount; ++i) EXPECT_EQ(IndexOf(kAxisOps[i]), i);
  EXPECT_EQ(IndexOf({RowOp::kSum}), 0);
  EXPECT_EQ(IndexOf({RowOp::kNorm}), 15);
  EXPECT_EQ(IndexOf({RowOp::kSum, Axis::kOuter}), 16);
  EXPECT_EQ(IndexOf({RowOp::kSum, Axis::kAll}), 25);
  EXPECT_EQ(IndexOf({RowOp::kMinOfAll, Axis::kAll}), 31);
  EXPECT_EQ(IndexOf({RowOp::kSum, Axis::kInner, true}), 32);
  EXPECT_EQ(IndexOf({RowOp::kAmin, Axis::kAll, true}), 40);
  EXPECT_EQ(IndexOf({RowOp::kLogSoftmaxBackward, Axis::kStrided}), 44);
}

TEST(RowFunctionsTest, NotEachOpGoesAlongEachAxis) {
  EXPECT_LT(IndexOf({RowOp::kVar, Axis::kAll}), 0);
  EXPECT_LT(IndexOf({RowOp::kSoftmax, Axis::kOuter}), 0);
  EXPECT_LT(IndexOf({RowOp::kMaxOfAll}), 0);
  EXPECT_LT(IndexOf({RowOp::kMean, Axis::kInner, true}), 0);
  AxisOp what;
  EXPECT_FALSE(AxisOpOf(ir::Op::kSum, Axis::kStrided, &what));
  EXPECT_FALSE(AxisOpOf(ir::Op::kAdd, Axis::kInner, &what));
  ASSERT_TRUE(AxisOpOf(ir::Op::kAmaxOfHalves, Axis::kAll, &what));
  EXPECT_EQ(what, (AxisOp{RowOp::kAmax, Axis::kAll, true}));
  EXPECT_STREQ(NameOf(what), "amax_of_halves");
  ASSERT_TRUE(AxisOpOf(ir::Op::kNormMean, Axis::kInner, &what));
  EXPECT_STREQ(NameOf(what), "norm_rstd");
}

TEST(RowFunctionsTest, SumsAndMeansOfIntegersAreExact) {
  for (const AxisOp& what : {AxisOp{RowOp::kSum}, AxisOp{RowOp::kMean},
                             AxisOp{RowOp::kSum, Axis::kInner, true}}) {
    ForAll(what, [&](const RowFunction& f, auto zero) {
      using T = decltype(zero);
      for (const std::int64_t n : kLengths) {
        const std::vector<T> x = Integers<T>(3 * n, 1);
        T sums[3];
        f.run(3, n, x.data(), nullptr, sums);
        for (int row = 0; row < 3; ++row) {
          T sum = std::accumulate(x.begin() + row * n,
                                  x.begin() + (row + 1) * n, T(0));
          if (what.op == RowOp::kMean) sum /= static_cast<T>(n);
          EXPECT_EQ(sums[row], sum) << n;
        }
      }
    });
  }
}

TEST(RowFunctionsTest, SumsOfColumnsAreExact) {
  for (const bool of_halves : {false, true}) {
    ForAll({RowOp::kSum, Axis::kOuter, of_halves},
           [](const RowFunction& f, auto zero) {
             using T = decltype(zero);
             for (const std::int64_t n : {1, 3, 8, 21, 64, 100, 300}) {
               for (const std::int64_t rows : {1, 5, 16, 17, 70, 1000}) {
                 const std::vector<T> x = Integers<T>(rows * n, 2);
                 std::vector<T> sums(static_cast<std::size_t>(n));
                 RunColumns(f.run_columns, rows, n, x.data(), 0, sums.data());
                 for (std::int64_t j = 0; j < n; ++j) {
                   T sum = 0;
                   for (std::int64_t i = 0; i < rows; ++i) {
                     sum += x[static_cast<std::size_t>(i * n + j)];
                   }
                   ASSERT_EQ(sums[static_cast<std::size_t>(j)], sum)
                       << n << " " << rows;
                 }
               }
             }
           });
  }
}

// What is added first decides what is lost: the halves of 16 numbers are.
TEST(RowFunctionsTest, HalvesAreAddedToOneAnother) {
  ForAll({RowOp::kSum, Axis::kInner, true},
         [](const RowFunction& f, auto /*zero*/) {
           float x[32] = {};
           x[0] = 0x1p30F;
           x[8] = -0x1p30F;
           x[16] = 1;
           float sum = 0;
           f.run(1, 32, x, nullptr, &sum);
           EXPECT_EQ(sum, 1);
           std::swap(x[8], x[16]);
           f.run(1, 32, x, nullptr, &sum);
           EXPECT_EQ(sum, 0);
         });
}

// In one part and in several.
TEST(RowFunctionsTest, DotsOfIntegersAreExact) {
  for (const RowOp op : {RowOp::kDot, RowOp::kSumSequential}) {
    ForAll({op, Axis::kOuter}, [&](const RowFunction& f, auto zero) {
      using T = decltype(zero);
      for (const std::int64_t n : {1, 3, 8, 21, 64, 100}) {
        for (const std::int64_t rows : {1, 5, 16, 70}) {
          const std::vector<T> x = Integers<T>(rows * n, 2);
          const std::vector<T> y = Integers<T>(rows * n, 3);
          std::vector<T> sums(static_cast<std::size_t>(n));
          RunColumns(f.run_columns, rows, n, x.data(),
                     static_cast<double>(n % 5 + 1), sums.data(), y.data());
          for (std::int64_t j = 0; j < n; ++j) {
            T sum = 0;
            for (std::int64_t i = 0; i < rows; ++i) {
              const auto at = static_cast<std::size_t>(i * n + j);
              sum += op == RowOp::kDot ? x[at] * y[at] : x[at];
            }
            ASSERT_EQ(sums[static_cast<std::size_t>(j)], sum) << n;
          }
        }
      }
    });
  }
  ForAll({RowOp::kDot}, [](const RowFunction& f, auto zero) {
    using T = decltype(zero);
    for (const std::int64_t n : kLengths) {
      if (n > 10000) continue;  // the sum has too many digits
      const std::vector<T> x = Integers<T>(n, 1);
      const std::vector<T> y = Integers<T>(n, 4);
      T sum = 0;
      f.run(1, n, x.data(), y.data(), &sum);
      EXPECT_EQ(sum, std::inner_product(x.begin(), x.end(), y.begin(), T(0)));
    }
  });
}

TEST(RowFunctionsTest, ExtremesAreTheExtremesAndNanIfThereIsOne) {
  for (const bool is_max : {true, false}) {
    ForAll({is_max ? RowOp::kAmax : RowOp::kAmin}, [&](const RowFunction& f,
                                                       auto zero) {
      using T = decltype(zero);
      for (const std::int64_t n : kLengths) {
        std::vector<T> x = Integers<T>(n, 3);
        T got;
        f.run(1, n, x.data(), nullptr, &got);
        EXPECT_EQ(got, is_max ? *std::max_element(x.begin(), x.end())
                              : *std::min_element(x.begin(), x.end()));
        for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
          std::vector<T> y = x;
          y[static_cast<std::size_t>(at)] = std::numeric_limits<T>::quiet_NaN();
          f.run(1, n, y.data(), nullptr, &got);
          EXPECT_TRUE(std::isnan(got)) << n << " at " << at;
        }
      }
    });
  }
}

TEST(RowFunctionsTest, SoftmaxSumsUpToOneAndLogSoftmaxIsItsLogarithm) {
  for (const RowTable* table : Tables()) {
    for (int i = 0; i < table->count; ++i) {
      const RowFunction& f = table->functions[i];
      if (f.what != AxisOp{RowOp::kSoftmax} || !f.is_double) continue;
      const RowFunction& log = table->functions[i + 1];
      ASSERT_EQ(log.what, AxisOp{RowOp::kLogSoftmax});
      for (const std::int64_t n : {1, 3, 8, 9, 100, 1000}) {
        std::vector<double> x = Integers<double>(2 * n, 4);
        std::vector<double> y(x.size()), z(x.size());
        f.run(2, n, x.data(), nullptr, y.data());
        log.run(2, n, x.data(), nullptr, z.data());
        EXPECT_NEAR(std::accumulate(y.begin(), y.begin() + n, 0.0), 1, 1e-12);
        for (std::size_t j = 0; j < y.size(); ++j) {
          EXPECT_NEAR(y[j], std::exp(z[j]), 1e-12 * y[j]);
        }
      }
    }
  }
}

TEST(RowFunctionsTest, MomentsOfTheSameNumberAreThatAndOneOverRootOfEps) {
  for (const RowOp op : {RowOp::kMoments, RowOp::kMomentsWide}) {
    ForAll({op}, [](const RowFunction& f, auto zero) {
      using T = decltype(zero);
      for (const std::int64_t n : kLengths) {
        const std::vector<T> x(static_cast<std::size_t>(2 * n), T(3));
        T mean[2], rstd[2];
        const TjitRowNumber both{0.25, mean}, one{0.25, nullptr};
        f.run(2, n, x.data(), &both, rstd);
        EXPECT_EQ(mean[0], 3) << n;
        EXPECT_EQ(mean[1], 3) << n;
        EXPECT_EQ(rstd[0], 2) << n;
        EXPECT_EQ(rstd[1], 2) << n;
        rstd[0] = 0;
        f.run(1, n, x.data(), &one, rstd);
        EXPECT_EQ(rstd[0], 2) << n;
        mean[0] = 0;
        f.run(1, n, x.data(), &both, nullptr);
        EXPECT_EQ(mean[0], 3) << n;
      }
    });
  }
}

// What a float cannot hold of eps counts.
TEST(RowFunctionsTest, TheRootOfWideMomentsIsOfDoubles) {
  constexpr double kEps = 1e-5;
  ForAll({RowOp::kMomentsWide}, [](const RowFunction& f, auto zero) {
    using T = decltype(zero);
    for (int i = 1; i < 200; ++i) {
      const std::vector<T> x = {T(i), T(-i)};  // a variance of i * i
      const TjitRowNumber eps{kEps, nullptr};
      T rstd = 0;
      f.run(1, 2, x.data(), &eps, &rstd);
      EXPECT_EQ(rstd, static_cast<T>(
                          1 / std::sqrt(static_cast<double>(i * i) + kEps)))
          << i;
    }
  });
}

template <class T>
std::vector<T> Normal(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<T> normal;
  std::vector<T> x(static_cast<std::size_t>(n));
  for (T& v : x) v = normal(random);
  return x;
}

// Welford's formula with divisions, element by element.
template <class T>
double SquaresOf(const std::vector<T>& x, std::size_t first, std::size_t step,
                 std::int64_t count) {
  double mean = 0, squares = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = x[first + static_cast<std::size_t>(i) * step];
    const double delta = value - mean;
    mean += delta / static_cast<double>(i + 1);
    squares += delta * (value - mean);
  }
  return squares;
}

TEST(RowFunctionsTest, VariancesAreWelfords) {
  for (const Axis axis : {Axis::kInner, Axis::kOuter}) {
    ForAll({RowOp::kVar, axis}, [&](const RowFunction& f, auto zero) {
      using T = decltype(zero);
      for (const auto& [rows, n] : {std::pair<std::int64_t, std::int64_t>{3, 5},
                                    {50, 33},
                                    {9, 70},
                                    {700, 101}}) {
        const std::vector<T> x = Normal<T>(rows * n, 8);
        const bool is_columns = axis == Axis::kOuter;
        const std::int64_t results = is_columns ? n : rows;
        std::vector<T> got(static_cast<std::size_t>(results));
        RunAlongAxis(f, rows, n, x.data(), nullptr, 1, got.data());
        const std::int64_t count = is_columns ? rows : n;
        for (std::size_t i = 0; i < got.size(); ++i) {
          const std::size_t step = is_columns ? static_cast<std::size_t>(n) : 1;
          const double squares = SquaresOf(
              x, is_columns ? i : i * static_cast<std::size_t>(n), step, count);
          EXPECT_EQ(got[i],
                    static_cast<T>(squares / static_cast<double>(count - 1)))
              << rows << " " << n << " " << i;
        }
      }
    });
  }
}

// In double, before anything is rounded to the type: no quotient by a count is
// another one than the division's, whatever the sizes of the numbers.
TEST(RowFunctionsTest, QuotientsByCountsAreThoseOfDivisions) {
  constexpr std::int64_t kRows = 20000, kColumns = 72;
  ForAll({RowOp::kVar, Axis::kOuter}, [](const RowFunction& f, auto zero) {
    using T = decltype(zero);
    std::vector<T> x = Normal<T>(kRows * kColumns, 9);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i % kColumns % 2 == 0) {
        x[i] = std::ldexp(x[i], static_cast<int>(i * 37 % 250) - 125);
      }
    }
    std::vector<TjitColumnState> state(
        TjitColumnBytes(kColumns) / sizeof(TjitColumnState) + 1);
    state[0].number = 1;
    state[0].rows = kRows;
    f.run_columns(0, kColumns, nullptr, state.data(), nullptr);
    f.run_columns(kRows, kColumns, x.data(), state.data(), nullptr);
    const auto* const squares =
        reinterpret_cast<const double*>(state.data() + 1) + kColumns;
    for (std::size_t j = 0; j < kColumns; ++j) {
      EXPECT_EQ(squares[j], SquaresOf(x, j, kColumns, kRows)) << j;
    }
  });
}

// However many rows come at a time.
TEST(RowFunctionsTest, ColumnsAreTheSameInParts) {
  for (const AxisOp& what : kAxisOps) {
    if (what.axis != Axis::kOuter) continue;
    ForAll(what, [&](const RowFunction& f, auto zero) {
      using T = decltype(zero);
      for (const auto& [rows, n] : {std::pair<std::int64_t, std::int64_t>{2, 2},
                                    {77, 5},
                                    {1000, 17},
                                    {67, 203}}) {
        const std::vector<T> x = Normal<T>(rows * n, 9);
        std::vector<T> whole(static_cast<std::size_t>(n)), parts(whole);
        RunColumns(f.run_columns, rows, n, x.data(), 2, whole.data(), x.data());
        std::vector<TjitColumnState> memory(static_cast<std::size_t>(
            TjitColumnBytes(n) /
                static_cast<std::int64_t>(sizeof(TjitColumnState)) +
            1));
        TjitColumnState* state = memory.data();
        state->number = 2;
        state->rows = rows;
        f.run_columns(0, n, nullptr, state, nullptr);
        for (std::int64_t i = 0, k = 1; i < rows; i += k, k = k % 23 + 3) {
          state->b = x.data() + i * n;
          f.run_columns(std::min(k, rows - i), n, x.data() + i * n, state,
                        nullptr);
        }
        f.run_columns(0, n, nullptr, state, parts.data());
        EXPECT_EQ(
            std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(T)),
            0)
            << rows << " rows of " << n;
      }
    });
  }
}

template <class T>
void ExpectParts(const RowFunction& row, const RowFunction& f) {
  for (const std::int64_t n : kLengths) {
    std::vector<T> x = Normal<T>(n, 3);
    if (n % 2 == 1) x[static_cast<std::size_t>(n / 3)] = T(-0.0);
    if (n % 5 == 0) {
      for (T& v : x) v = std::copysign(T(0), v);
    }
    if (n == 511) x[400] = std::numeric_limits<T>::quiet_NaN();
    T whole = 0, parts = 0;
    const TjitRowNumber p{2, nullptr};
    row.run(1, n, x.data(), row.what.op == RowOp::kNorm ? &p : nullptr, &whole);
    for (const std::int64_t most : {1, 3, 23, 100, 1000, 70000}) {
      std::vector<TjitColumnState> memory(kTjitWholeStateBytes /
                                          sizeof(TjitColumnState));
      TjitColumnState* state = memory.data();
      state->rows = n;
      state->number = p.number;
      f.run_columns(0, 1, nullptr, state, nullptr);
      for (std::int64_t i = 0, k = most; i < n; i += k) {
        k = std::min(most + i % 7, n - i);
        f.run_columns(k, 1, x.data() + i, state, nullptr);
      }
      f.run_columns(0, 1, nullptr, state, &parts);
      EXPECT_EQ(std::memcmp(&whole, &parts, sizeof(T)), 0)
          << n << " elements, " << most << " at a time: " << parts << " not "
          << whole;
    }
  }
}

// Of the table's own order of additions; others come behind it.
const RowFunction* FirstOf(const RowTable& table, const AxisOp& what,
                           bool is_double) {
  return std::find_if(table.functions, table.functions + table.count,
                      [&](const RowFunction& f) {
                        return f.what == what && f.is_double == is_double;
                      });
}

// Wherever the parts begin: what is a vector in eager goes by the position.
TEST(RowFunctionsTest, ColumnsOfASlabAreTheSameInParts) {
  constexpr std::int64_t kSlabRows = 9, kColumns = 173;
  for (const AxisOp& what : kAxisOps) {
    if (what.axis != Axis::kStrided) continue;
    ForAll(what, [&]<class T>(const RowFunction& f, T) {
      const std::vector<T> a = Normal<T>(kSlabRows * kColumns, 1);
      const std::vector<T> b = Normal<T>(kSlabRows * kColumns, 2);
      std::vector<T> all(a.size());
      f.run_slab(kSlabRows, kColumns, a.data(), kColumns, b.data(), kColumns,
                 all.data(), 0, kColumns);
      for (const std::int64_t step : {1, 5, 16, 70}) {
        for (std::int64_t first = 0; first < kColumns; first += step) {
          const std::int64_t n = std::min(step, kColumns - first);
          std::vector<T> part(static_cast<std::size_t>(kSlabRows * n));
          f.run_slab(kSlabRows, n, a.data() + first, kColumns, b.data() + first,
                     kColumns, part.data(), first, kColumns);
          for (std::int64_t row = 0; row < kSlabRows; ++row) {
            ASSERT_EQ(std::memcmp(part.data() + row * n,
                                  all.data() + row * kColumns + first,
                                  static_cast<std::size_t>(n) * sizeof(T)),
                      0)
                << "row " << row << " from column " << first << " on";
          }
        }
      }
    });
  }
}

TEST(RowFunctionsTest, SoftmaxOfColumnsSumsUpToOne) {
  ForAll({RowOp::kSoftmax, Axis::kStrided},
         [&]<class T>(const RowFunction& f, T) {
           constexpr std::int64_t kSlabRows = 21, kColumns = 75;
           const std::vector<T> a = Normal<T>(kSlabRows * kColumns, 3);
           std::vector<T> y(a.size());
           f.run_slab(kSlabRows, kColumns, a.data(), kColumns, nullptr, 0,
                      y.data(), 0, kColumns);
           for (std::int64_t j = 0; j < kColumns; ++j) {
             double sum = 0;
             for (std::int64_t i = 0; i < kSlabRows; ++i) {
               sum += y[static_cast<std::size_t>(i * kColumns + j)];
             }
             EXPECT_NEAR(sum, 1, 1e-6) << "column " << j;
           }
         });
}

TEST(RowFunctionsTest, ColumnsOfSoftmaxAreDealtOutToThreads) {
  const auto holds = [](std::int64_t slabs, std::int64_t n, int threads,
                        RowOp op = RowOp::kSoftmax, bool is_double = false) {
    return SlabOrderHolds(op, is_double, slabs, n, threads);
  };
  EXPECT_TRUE(holds(3, 33, 1));
  EXPECT_TRUE(holds(4, 33, 2));   // two slabs each
  EXPECT_FALSE(holds(3, 33, 2));  // one and a half
  EXPECT_TRUE(holds(3, 32, 2));   // of whole vectors
  EXPECT_FALSE(holds(3, 16, 2));
  EXPECT_TRUE(holds(3, 16, 2, RowOp::kSoftmax, true));
  EXPECT_TRUE(holds(3, 33, 2, RowOp::kLogSoftmax));
}

// One long row, however it is cut.
TEST(RowFunctionsTest, AllElementsInPartsAreARow) {
  for (const RowTable* table : Tables()) {
    for (int i = 0; i < table->count; ++i) {
      const RowFunction& row = table->functions[i];
      for (int k = 0; k < table->count; ++k) {
        const RowFunction& f = table->functions[k];
        const bool is_same = f.is_double == row.is_double &&
                             f.contracts == row.contracts &&
                             row.what == AxisOp{f.what.op} &&
                             f.what == AxisOp{f.what.op, Axis::kAll};
        const RowOp op = row.what.op;
        const bool adds_up = op == RowOp::kSum || op == RowOp::kMean;
        const bool is_own =
            !adds_up || &row == FirstOf(*table, row.what, row.is_double);
        if (!is_same || !is_own) continue;
        SCOPED_TRACE(NameOfFunction(*table, f));
        if (f.is_double) {
          ExpectParts<double>(row, f);
        } else {
          ExpectParts<float>(row, f);
        }
      }
    }
  }
}

// Also of the rows that log_softmax takes together.
TEST(RowFunctionsTest, ARowIsTheSameAloneAndAmongOthers) {
  for (const AxisOp& what : kAxisOps) {
    if (what.axis != Axis::kInner || what.of_halves) continue;
    ForAll(what, [&](const RowFunction& f, auto zero) {
      using T = decltype(zero);
      const bool is_row =
          what.op >= RowOp::kSoftmax && what.op <= RowOp::kLogSoftmaxBackward;
      for (const std::int64_t n : {1, 5, 16, 37, 300}) {
        constexpr std::int64_t kRows = 35;
        std::mt19937 random(5);
        std::normal_distribution<T> normal;
        std::vector<T> x(static_cast<std::size_t>(kRows * n));
        for (T& v : x) v = normal(random);
        const std::vector<T> b(x.size(), T(0.01));
        const std::int64_t width = is_row ? n : 1;
        std::vector<T> all(static_cast<std::size_t>(kRows * width));
        std::vector<T> one(static_cast<std::size_t>(width));
        RunAlongAxis(f, kRows, n, x.data(), b.data(), 0.01, all.data());
        for (std::int64_t row = 0; row < kRows; ++row) {
          RunAlongAxis(f, 1, n, x.data() + row * n, b.data(), 0.01, one.data());
          ASSERT_EQ(std::memcmp(one.data(), all.data() + row * width,
                                one.size() * sizeof(T)),
                    0)
              << "row " << row << " n " << n;
        }
      }
    });
  }
}

// Vectors of the same width: the order is the same.
TEST(RowFunctionsTest, Avx2AddsUpAsPlainDoes) {
  const std::vector<const RowTable*> tables = Tables();
  if (tables.size() < 2) GTEST_SKIP() << "no AVX2";
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  for (const std::int64_t n : kLengths) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (float& v : x) v = normal(random);
    float sums[2];
    ASSERT_EQ(tables[0]->functions[0].what, AxisOp{RowOp::kSum});
    ASSERT_EQ(tables[1]->functions[0].what, AxisOp{RowOp::kSum});
    tables[0]->functions[0].run(1, n, x.data(), nullptr, &sums[0]);
    tables[1]->functions[0].run(1, n, x.data(), nullptr, &sums[1]);
    EXPECT_EQ(std::memcmp(&sums[0], &sums[1], sizeof(float)), 0) << n;
  }
}

const RowFunction& ByHalves(const AxisOp& what, bool is_double) {
  const RowFunction* by_halves = nullptr;
  for (int i = 0; i < kAvx512Rows.count; ++i) {
    const RowFunction& f = kAvx512Rows.functions[i];
    if (f.what == what && f.is_double == is_double) by_halves = &f;
  }
  return *by_halves;
}

template <class T>
void ExpectAvx512AddsUpAsAvx2(const AxisOp& what) {
  std::mt19937 random(8);
  std::normal_distribution<T> normal;
  const auto check = [&](std::int64_t n) {
    constexpr std::int64_t kRows = 3;
    std::vector<T> x(static_cast<std::size_t>(kRows * n));
    for (T& v : x) v = normal(random);
    T sums[2][kRows];
    FirstOf(kAvx2Rows, what, sizeof(T) == 8)
        ->run(kRows, n, x.data(), nullptr, sums[0]);
    ByHalves(what, sizeof(T) == 8).run(kRows, n, x.data(), nullptr, sums[1]);
    EXPECT_EQ(std::memcmp(sums[0], sums[1], sizeof(sums[0])), 0) << n;
  };
  for (std::int64_t n = 1; n <= 300; ++n) check(n);
  for (const std::int64_t n : kLengths) check(n);
}

template <class T>
void ExpectAvx512AddsColumnsAsAvx2(const AxisOp& what) {
  const auto check = [&](std::int64_t rows, std::int64_t n) {
    const std::vector<T> x = Normal<T>(rows * n, 8);
    std::vector<T> all(static_cast<std::size_t>(n)), halves(all);
    RunColumns(FirstOf(kAvx2Rows, what, sizeof(T) == 8)->run_columns, rows, n,
               x.data(), 0, all.data());
    RunColumns(ByHalves(what, sizeof(T) == 8).run_columns, rows, n, x.data(), 0,
               halves.data());
    EXPECT_EQ(std::memcmp(all.data(), halves.data(), all.size() * sizeof(T)), 0)
        << rows << " rows of " << n;
  };
  for (std::int64_t n = 1; n <= 140; ++n) check(n % 50 + 50, n);
  for (const std::int64_t n : {160, 256, 333, 512, 520}) check(3000, n);
}

// By halves of a vector, the last of its functions.
TEST(RowFunctionsTest, Avx512AddsUpAsAvx2Does) {
  if (Tables().size() < 3) GTEST_SKIP() << "no AVX-512";
  for (const RowOp op : {RowOp::kSum, RowOp::kMean}) {
    ExpectAvx512AddsColumnsAsAvx2<float>({op, Axis::kOuter});
    ExpectAvx512AddsColumnsAsAvx2<double>({op, Axis::kOuter});
    ExpectAvx512AddsUpAsAvx2<float>({op});
    ExpectAvx512AddsUpAsAvx2<double>({op});
  }
}

TEST(RowFunctionsTest, EagersOrderIsARowsOwnButForThreads) {
  EXPECT_TRUE(RowOrderHolds({RowOp::kSum}, false, 1, 32767, 2));
  EXPECT_FALSE(RowOrderHolds({RowOp::kSum}, false, 1, 32768, 2));
  EXPECT_TRUE(RowOrderHolds({RowOp::kSum}, false, 1, 32768, 1));
  EXPECT_TRUE(RowOrderHolds({RowOp::kSum}, false, 2, 32768, 2));
  EXPECT_FALSE(RowOrderHolds({RowOp::kAmax}, false, 1, 100000, 8));
  EXPECT_TRUE(RowOrderHolds({RowOp::kSoftmax}, false, 1, 100000, 8));
  EXPECT_TRUE(RowOrderHolds({RowOp::kSoftmaxBackward}, false, 10, 10, 1));
  EXPECT_FALSE(RowOrderHolds({RowOp::kSoftmaxBackward}, false, 10, 10, 2));
  EXPECT_TRUE(RowOrderHolds({RowOp::kSoftmaxBackward}, true, 10, 10, 2));
  EXPECT_TRUE(RowOrderHolds({RowOp::kSum, Axis::kOuter}, false, 10, 1000, 8));
  EXPECT_FALSE(RowOrderHolds({RowOp::kSum, Axis::kOuter}, false, 100, 1000, 8));
  EXPECT_TRUE(RowOrderHolds({RowOp::kSoftmaxBackward}, false, 10, 10, 1));
  EXPECT_FALSE(RowOrderHolds({RowOp::kSoftmaxBackward}, false, 10, 10, 2));
  EXPECT_TRUE(RowOrderHolds({RowOp::kSoftmaxBackward}, true, 10, 10, 2));
  EXPECT_TRUE(RowOrderHolds({RowOp::kSum, Axis::kOuter}, false, 100, 1000, 1));
  EXPECT_TRUE(RowOrderHolds({RowOp::kVar, Axis::kOuter}, false, 100, 1000, 8));
  EXPECT_FALSE(RowOrderHolds({RowOp::kVar, Axis::kOuter}, false, 40000, 2, 8));
}

}  // namespace
}  // namespace tjit

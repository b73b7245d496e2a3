#include "tests/compiler/llvm/llvm_math.h"

#include <algorithm>

#include "compiler/ir/dtype.h"
#include "compiler/ir/eval_functions.h"
#include "compiler/ir/eval_pointwise.h"
#include "compiler/ir/eval_reduce.h"
#include "compiler/ir/eval_row.h"

namespace tjit::ir {
namespace {

template <class F, class T>
void Array(int n, const T* in, T* out, std::int64_t mode) {
  ArrayCalls& calls = Calls();
  ++calls.count;
  calls.longest = std::max<std::int64_t>(calls.longest, n);
  calls.wrong_modes += mode != kTestMode;
  for (int i = 0; i < n; ++i) out[i] = F::template Eval<T>(in + i);
}

template <class T, int kBytes>
struct VectorOf {
  using Type __attribute__((vector_size(kBytes))) = T;
};

// Bodies are the same; only a function that may use the registers takes its
// vectors in them.
#define TJIT_VECTOR_FUNCTIONS(name, bytes, features)           \
  template <class F, class T>                                  \
  struct name {                                                \
    using V = typename VectorOf<T, bytes>::Type;               \
    __attribute__((target(features))) static V One(V a) {      \
      for (std::size_t i = 0; i < (bytes) / sizeof(T); ++i) {  \
        const T x[2] = {a[i], T(0)};                           \
        a[i] = F::template Eval<T>(x);                         \
      }                                                        \
      return a;                                                \
    }                                                          \
    __attribute__((target(features))) static V Two(V a, V b) { \
      for (std::size_t i = 0; i < (bytes) / sizeof(T); ++i) {  \
        const T x[2] = {a[i], b[i]};                           \
        a[i] = F::template Eval<T>(x);                         \
      }                                                        \
      return a;                                                \
    }                                                          \
  };
TJIT_VECTOR_FUNCTIONS(Narrow, 16, "sse2")
TJIT_VECTOR_FUNCTIONS(Middle, 32, "avx2")
TJIT_VECTOR_FUNCTIONS(Wide, 64, "avx512f")
#undef TJIT_VECTOR_FUNCTIONS

template <class Function>
TjitMath Entry(const char* op, TjitMathKind kind, Function* function) {
  return {op, kind, reinterpret_cast<void*>(function), kTestMode};
}

// The widest first, as the first entry that fits is taken.
template <class F>
void AddVectors(const char* op, bool is_binary, std::vector<TjitMath>* table) {
  const auto add = [&]<class V>(TjitMathKind kind, V) {
    table->push_back(is_binary ? Entry(op, kind, &V::Two)
                               : Entry(op, kind, &V::One));
  };
  add(kTjitMathF32x16, Wide<F, float>());
  add(kTjitMathF32x8, Middle<F, float>());
  add(kTjitMathF32x4, Narrow<F, float>());
  add(kTjitMathF64x8, Wide<F, double>());
  add(kTjitMathF64x4, Middle<F, double>());
  add(kTjitMathF64x2, Narrow<F, double>());
}

template <class F>
void AddArrays(const char* op, std::vector<TjitMath>* table) {
  table->push_back(Entry(op, kTjitMathVmlF32, &Array<F, float>));
  table->push_back(Entry(op, kTjitMathVmlF64, &Array<F, double>));
}

// Elements from `first` on, of `total`. The sum over `total` elements is 0.
void CountPlaces(std::int64_t first, std::int64_t n, std::int64_t total) {
  ArrayCalls& calls = Calls();
  calls.wrong_places += first < 0 || n <= 0 || first + n > total;
  calls.uneven_places += n * (2 * first + n - total);
}

// Halves are floats in the arrays, rounded.
template <class F, DType kType, class T>
void PositionFunction(std::int64_t n, const void* a, const void* b, void* out,
                      std::int64_t first, std::int64_t total, double s,
                      double t, double u) {
  ArrayCalls& calls = Calls();
  ++calls.count;
  CountPlaces(first, n, total);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  for (std::int64_t i = 0; i < n; ++i) {
    std::vector<T> operands = {x[i]};
    if (y != nullptr) operands.push_back(y[i]);
    for (const double scalar : {s, t, u}) {
      operands.push_back(static_cast<T>(scalar));
    }
    char rounded[8];
    Store(kType, F::template Eval<T>(operands.data()), rounded);
    static_cast<T*>(out)[i] = Load<T>(kType, rounded);
  }
}

template <class F>
void AddPositionFunctions(const char* op, std::vector<TjitMath>* table) {
  const auto add = [&](TjitMathKind kind, TjitPositionFn function) {
    table->push_back({op, kind, reinterpret_cast<void*>(function), 0});
  };
  add(kTjitPositionF32, &PositionFunction<F, DType::kF32, float>);
  add(kTjitPositionF64, &PositionFunction<F, DType::kF64, double>);
  add(kTjitPositionBF16, &PositionFunction<F, DType::kBF16, float>);
  add(kTjitPositionF16, &PositionFunction<F, DType::kF16, float>);
}

#define TJIT_MORE_TAILS(f)                                                     \
  f(Softshrink, "softshrink") f(Asinh, "asinh") f(Acosh, "acosh")              \
      f(Atanh, "atanh") f(MaximumOfTensors, "maximum_of_tensors")              \
          f(MinimumOfTensors, "minimum_of_tensors") f(Fmax, "fmax")            \
              f(Fmin, "fmin") f(Hypot, "hypot") f(Nextafter, "nextafter")      \
                  f(Logaddexp, "logaddexp") f(Logaddexp2, "logaddexp2")        \
                      f(Xlogy, "xlogy") f(InRemainder, "in_remainder")         \
                          f(SmoothL1Backward, "smooth_l1_backward") f(         \
                              HuberBackward, "huber_backward")                 \
                              f(EluBackward, "elu_backward") f(                \
                                  EluResultBackward, "elu_result_backward")    \
                                  f(HardtanhBackward, "hardtanh_backward") f(  \
                                      HardswishBackward, "hardswish_backward") \
                                      f(ShrinkBackward, "shrink_backward")

#define TJIT_TAILS(f)                                                       \
  f(Silu, "silu") f(Mish, "mish") f(Gelu, "gelu") f(GeluTanh, "gelu_tanh")  \
      f(Softplus, "softplus") f(Elu, "elu") f(PowScalar, "pow_scalar")      \
          f(SiluBackward, "silu_backward") f(MishBackward, "mish_backward") \
              f(GeluBackward, "gelu_backward")                              \
                  f(GeluTanhBackward, "gelu_tanh_backward")                 \
                      f(SoftplusBackward, "softplus_backward")              \
                          TJIT_MORE_TAILS(f)

#define TJIT_UNARY(f)                                                       \
  f(Exp, "exp") f(Exp2, "exp2") f(Expm1, "expm1") f(Log, "log")             \
      f(Log2, "log2") f(Log10, "log10") f(Log1p, "log1p")                   \
          f(ExpInVectors, "exp_in_vectors") f(Sin, "sin") f(Cos, "cos")     \
              f(Tan, "tan") f(Asin, "asin") f(Acos, "acos") f(Atan, "atan") \
                  f(Sinh, "sinh") f(Cosh, "cosh") f(Tanh, "tanh")           \
                      f(Erf, "erf") f(Erfc, "erfc") f(Sigmoid, "sigmoid")

void CountRows(std::int64_t rows) {
  ArrayCalls& calls = Calls();
  ++calls.row_count;
  calls.most_rows = std::max(calls.most_rows, rows);
}

template <class F, class T>
void ReduceRows(std::int64_t rows, std::int64_t n, const void* a, const void*,
                void* out) {
  CountRows(rows);
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = static_cast<const T*>(a) + r * n;
    const std::vector<double> x(row, row + n);
    static_cast<T*>(out)[r] =
        static_cast<T>(F::template Eval<double>(x.data(), n, 0));
  }
}

template <class F, class T>
void MapRows(std::int64_t rows, std::int64_t n, const void* a, const void* b,
             void* out) {
  CountRows(rows);
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* x = static_cast<const T*>(a) + r * n;
    const T* y = b == nullptr ? x : static_cast<const T*>(b) + r * n;
    const std::vector<double> in[2] = {{x, x + n}, {y, y + n}};
    const double* const rows_in[2] = {in[0].data(), in[1].data()};
    std::vector<double> row(static_cast<std::size_t>(n));
    F::Eval(rows_in, row.data(), n);
    std::copy(row.begin(), row.end(), static_cast<T*>(out) + r * n);
  }
}

template <class F, class T>
void MapSlab(std::int64_t rows, std::int64_t n, const void* a,
             std::int64_t a_stride, const void* b, std::int64_t b_stride,
             void* out, std::int64_t first, std::int64_t columns) {
  CountRows(rows);
  CountPlaces(first, n, columns);
  Calls().most_columns = std::max(Calls().most_columns, columns);
  const auto column = [&](const void* data, std::int64_t at,
                          std::int64_t stride) {
    std::vector<double> x;
    for (std::int64_t i = 0; i < rows; ++i, at += stride) {
      x.push_back(static_cast<const T*>(data)[at]);
    }
    return x;
  };
  for (std::int64_t j = 0; j < n; ++j) {
    const std::vector<double> in[2] = {
        column(a, j, a_stride),
        b == nullptr ? std::vector<double>() : column(b, j, b_stride)};
    const double* const rows_in[2] = {in[0].data(), in[1].data()};
    std::vector<double> result(static_cast<std::size_t>(rows));
    F::Eval(rows_in, result.data(), rows);
    for (std::int64_t i = 0; i < rows; ++i) {
      static_cast<T*>(out)[i * n + j] =
          static_cast<T>(result[static_cast<std::size_t>(i)]);
    }
  }
}

#define TJIT_ADD_SLABS(F, name)                                            \
  made->push_back({name, kTjitSlabF32,                                     \
                   reinterpret_cast<void*>(&MapSlab<eval::F, float>), 0}); \
  made->push_back({name, kTjitSlabF64,                                     \
                   reinterpret_cast<void*>(&MapSlab<eval::F, double>), 0});

#define TJIT_ADD_ROWS(how, F, name)                                           \
  made->push_back(                                                            \
      {name, kTjitRowF32, reinterpret_cast<void*>(&how<eval::F, float>), 0}); \
  made->push_back(                                                            \
      {name, kTjitRowF64, reinterpret_cast<void*>(&how<eval::F, double>), 0});

}  // namespace

const std::vector<TjitMath>& RowMath() {
  static const auto* table = [] {
    auto* made = new std::vector<TjitMath>;
    TJIT_ADD_ROWS(ReduceRows, Sum, "sum")
    TJIT_ADD_ROWS(ReduceRows, Mean, "mean")
    TJIT_ADD_ROWS(ReduceRows, Amax, "amax")
    TJIT_ADD_ROWS(ReduceRows, Amin, "amin")
    TJIT_ADD_ROWS(MapRows, Softmax, "softmax")
    TJIT_ADD_ROWS(MapRows, LogSoftmax, "log_softmax")
    TJIT_ADD_ROWS(MapRows, SoftmaxBackward, "softmax_backward")
    TJIT_ADD_ROWS(MapRows, LogSoftmaxBackward, "log_softmax_backward")
    TJIT_ADD_SLABS(Softmax, "softmax")
    TJIT_ADD_SLABS(LogSoftmax, "log_softmax")
    TJIT_ADD_SLABS(SoftmaxBackward, "softmax_backward")
    TJIT_ADD_SLABS(LogSoftmaxBackward, "log_softmax_backward")
    return made;
  }();
  return *table;
}

const std::vector<TjitMath>& ArrayVectorAndRowMath() {
  static const auto* table = [] {
    auto* made = new std::vector<TjitMath>(RowMath());
    made->insert(made->end(), ArrayAndVectorMath().begin(),
                 ArrayAndVectorMath().end());
    return made;
  }();
  return *table;
}

ArrayCalls& Calls() {
  static ArrayCalls calls;
  return calls;
}

const std::vector<TjitMath>& VectorMath() {
  static const auto* table = [] {
    auto* made = new std::vector<TjitMath>;
#define TJIT_ADD(F, name) AddVectors<eval::F>(name, false, made);
    TJIT_UNARY(TJIT_ADD)
#undef TJIT_ADD
    AddVectors<eval::Pow>("pow", true, made);
    AddVectors<eval::Atan2>("atan2", true, made);
    AddVectors<eval::Fmod>("fmod", true, made);
    AddVectors<eval::Remainder>("remainder", true, made);
    return made;
  }();
  return *table;
}

const std::vector<TjitMath>& ArrayAndVectorMath() {
  static const auto* table = [] {
    auto* made = new std::vector<TjitMath>;
#define TJIT_ADD(F, name) AddArrays<eval::F>(name, made);
    TJIT_UNARY(TJIT_ADD)
#undef TJIT_ADD
#define TJIT_ADD(F, name) AddPositionFunctions<eval::F>(name, made);
    TJIT_TAILS(TJIT_ADD)
#undef TJIT_ADD
    made->insert(made->end(), VectorMath().begin(), VectorMath().end());
    return made;
  }();
  return *table;
}

}  // namespace tjit::ir

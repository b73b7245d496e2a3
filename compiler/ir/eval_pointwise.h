// What each pointwise op computes for one element: `x[0]`, `x[1]`, ... are the
// operands in the compute type T (int64_t, float or double), in the order of
// ops.def; the result is rounded to the element type afterwards. Comparisons
// give 0 or 1. Integers wrap.
// Tested by: tests/compiler/ir_interpreter_test.cpp
// Source: aten/src/ATen/native/cpu of libtorch 2.13 (BinaryOpsKernel.cpp,
// PointwiseOpsKernel.cpp, Lerp.h, UnaryOpsKernel.cpp).
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace tjit::ir::eval {

template <class T>
constexpr bool kIsInt = std::is_same_v<T, std::int64_t>;

template <class T>
T Times(T a, T b) {
  if constexpr (kIsInt<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) *
                          static_cast<std::uint64_t>(b));
  } else {
    return a * b;
  }
}

// a * b + c with one rounding.
template <class T>
T Fma(T a, T b, T c) {
  if constexpr (kIsInt<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(Times(a, b)) +
                          static_cast<std::uint64_t>(c));
  } else {
    return std::fma(a, b, c);
  }
}

template <class T>
T Negative(T a) {
  if constexpr (kIsInt<T>) {
    return static_cast<T>(-static_cast<std::uint64_t>(a));
  } else {
    return -a;
  }
}

template <class T>
bool IsNanValue(T a) {
  return a != a;
}

template <class T>
T Greater(T a, T b) {
  if (IsNanValue(a)) return a;
  if (IsNanValue(b)) return b;
  return a < b ? b : a;
}

template <class T>
T Smaller(T a, T b) {
  if (IsNanValue(a)) return a;
  if (IsNanValue(b)) return b;
  return b < a ? b : a;
}

template <class T>
T SignOf(T a) {
  return static_cast<T>((T(0) < a) - (a < T(0)));
}

template <class T>
T RemainderOf(T a, T b) {
  const T rest = std::fmod(a, b);
  return rest != T(0) && ((b < T(0)) != (rest < T(0))) ? rest + b : rest;
}

template <class T>
T LerpOf(T a, T b, T w) {
  return std::abs(w) < T(0.5) ? std::fma(w, b - a, a)
                              : std::fma(w - T(1), b - a, b);
}

#define TJIT_IR_EVAL(Name, ...)                  \
  struct Name {                                  \
    template <class T>                           \
    static T Eval([[maybe_unused]] const T* x) { \
      return static_cast<T>(__VA_ARGS__);        \
    }                                            \
  };

TJIT_IR_EVAL(Add, Fma(x[1], x[2], x[0]))
TJIT_IR_EVAL(Sub, Fma(x[1], Negative(x[2]), x[0]))
TJIT_IR_EVAL(Mul, Times(x[0], x[1]))
TJIT_IR_EVAL(Div, x[0] / x[1])
TJIT_IR_EVAL(Fmod, std::fmod(x[0], x[1]))
TJIT_IR_EVAL(Remainder, RemainderOf(x[0], x[1]))
TJIT_IR_EVAL(Neg, Negative(x[0]))
TJIT_IR_EVAL(Abs, kIsInt<T> ? (x[0] < 0 ? Negative(x[0]) : x[0])
                            : static_cast<T>(std::fabs(x[0])))
TJIT_IR_EVAL(Sign, SignOf(x[0]))
TJIT_IR_EVAL(Reciprocal, T(1) / x[0])
TJIT_IR_EVAL(Sqrt, std::sqrt(x[0]))
TJIT_IR_EVAL(Rsqrt, T(1) / std::sqrt(x[0]))
TJIT_IR_EVAL(Square, Times(x[0], x[0]))
TJIT_IR_EVAL(Floor, std::floor(x[0]))
TJIT_IR_EVAL(Ceil, std::ceil(x[0]))
TJIT_IR_EVAL(Trunc, std::trunc(x[0]))
TJIT_IR_EVAL(Round, std::nearbyint(x[0]))
TJIT_IR_EVAL(Addcmul, Fma(Times(x[3], x[1]), x[2], x[0]))
TJIT_IR_EVAL(Addcdiv, x[0] + x[3] * x[1] / x[2])
TJIT_IR_EVAL(Lerp, LerpOf(x[0], x[1], x[2]))

TJIT_IR_EVAL(Maximum, Greater(x[0], x[1]))
TJIT_IR_EVAL(Minimum, Smaller(x[0], x[1]))
TJIT_IR_EVAL(Clamp, Smaller(Greater(x[0], x[1]), x[2]))
TJIT_IR_EVAL(Where, x[0] != T(0) ? x[1] : x[2])
TJIT_IR_EVAL(Relu, Greater(x[0], T(0)))
TJIT_IR_EVAL(LeakyRelu, x[0] > T(0) ? x[0] : x[0] * x[1])
TJIT_IR_EVAL(Threshold, x[0] <= x[2] ? x[3] : x[1])

TJIT_IR_EVAL(Eq, x[0] == x[1])
TJIT_IR_EVAL(Ne, x[0] != x[1])
TJIT_IR_EVAL(Lt, x[0] < x[1])
TJIT_IR_EVAL(Le, x[0] <= x[1])
TJIT_IR_EVAL(Gt, x[0] > x[1])
TJIT_IR_EVAL(Ge, x[0] >= x[1])
TJIT_IR_EVAL(IsNan, IsNanValue(x[0]))
TJIT_IR_EVAL(LogicalNot, x[0] == T(0))
TJIT_IR_EVAL(LogicalAnd, x[0] != T(0) && x[1] != T(0))
TJIT_IR_EVAL(LogicalOr, x[0] != T(0) || x[1] != T(0))
TJIT_IR_EVAL(LogicalXor, (x[0] != T(0)) != (x[1] != T(0)))
TJIT_IR_EVAL(BitAnd, x[0] & x[1])
TJIT_IR_EVAL(BitOr, x[0] | x[1])
TJIT_IR_EVAL(BitXor, x[0] ^ x[1])

TJIT_IR_EVAL(Exp, std::exp(x[0]))
TJIT_IR_EVAL(Exp2, std::exp2(x[0]))
TJIT_IR_EVAL(Expm1, std::expm1(x[0]))
TJIT_IR_EVAL(Log, std::log(x[0]))
TJIT_IR_EVAL(Log2, std::log2(x[0]))
TJIT_IR_EVAL(Log10, std::log10(x[0]))
TJIT_IR_EVAL(Log1p, std::log1p(x[0]))
TJIT_IR_EVAL(Sin, std::sin(x[0]))
TJIT_IR_EVAL(Cos, std::cos(x[0]))
TJIT_IR_EVAL(Tan, std::tan(x[0]))
TJIT_IR_EVAL(Asin, std::asin(x[0]))
TJIT_IR_EVAL(Acos, std::acos(x[0]))
TJIT_IR_EVAL(Atan, std::atan(x[0]))
TJIT_IR_EVAL(Atan2, std::atan2(x[0], x[1]))
TJIT_IR_EVAL(Sinh, std::sinh(x[0]))
TJIT_IR_EVAL(Cosh, std::cosh(x[0]))
TJIT_IR_EVAL(Tanh, std::tanh(x[0]))
TJIT_IR_EVAL(Erf, std::erf(x[0]))
TJIT_IR_EVAL(Erfc, std::erfc(x[0]))
TJIT_IR_EVAL(Sigmoid, T(1) / (T(1) + std::exp(-x[0])))
TJIT_IR_EVAL(Pow, std::pow(x[0], x[1]))
TJIT_IR_EVAL(SigmoidBackward, x[0] * (T(1) - x[1]) * x[1])
TJIT_IR_EVAL(TanhBackward, x[0] * std::fma(-x[1], x[1], T(1)))

#undef TJIT_IR_EVAL

}  // namespace tjit::ir::eval

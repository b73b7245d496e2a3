// What the eval files share: arithmetic that is the same text for integers
// (wrapping) and floats, and TJIT_IR_EVAL, which makes the struct of an op.
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

// struct Name with T Eval<T>(const T* x): x[0], x[1], ... are the operands in
// the compute type T (int64_t, float or double), in the order of ops.def; the
// result is rounded to the element type afterwards.
#define TJIT_IR_EVAL(Name, ...)                  \
  struct Name {                                  \
    template <class T>                           \
    static T Eval([[maybe_unused]] const T* x) { \
      return static_cast<T>(__VA_ARGS__);        \
    }                                            \
  };

}  // namespace tjit::ir::eval

// Quotients by counts, with the bits of the division.
// Tested by: tests/compiler/functions/row_functions_test.cpp
#pragma once

#include "compiler/functions/row_functions/lanes.h"

namespace tjit::rows {
namespace {

// 1 / count: the double next to it, and what is left.
struct Inverse {
  double count, high, low;
};
template <class Isa>
inline Inverse InverseOf(double count) {
  if constexpr (Isa::kHasFma) {
    const double high = 1 / count;
    return {count, high, Isa::Fma(-count, high, 1.0) * high};
  } else {
    return {count, 0, 0};
  }
}

// a / count for all lanes. Of floats, whose differences are far from the ends
// of double's range, in a fifth of the time: before its last rounding
// a * high + a * low is the quotient to 2^-104 of itself, and the quotient of a
// double and a whole number below 2^49 lies further than that, 2^-54 / count of
// itself, from the middle of two doubles. Of an infinite a it is NaN, which is
// what its variance is: if `kTakesInfinity`, the product.
// Source: Brisebarre, Muller and Raina, Accelerating correctly rounded
// floating-point division when the divisor is known in advance (2004).
template <class Isa, class T, bool kTakesInfinity>
inline Vector<Isa, double> Quotient(const Vector<Isa, double>& a,
                                    const Inverse& inverse) {
  if constexpr (sizeof(T) == 4 && Isa::kHasFma) {
    const Vector<Isa, double> high = Splat<Isa, double>(inverse.high);
    const Vector<Isa, double> low = Splat<Isa, double>(inverse.low);
    const Vector<Isa, double> quotient = Isa::Fma(a, high, a * low);
    if constexpr (kTakesInfinity) {
      return quotient == quotient ? quotient : a * high;
    }
    return quotient;
  } else {
    return a / inverse.count;
  }
}

}  // namespace
}  // namespace tjit::rows

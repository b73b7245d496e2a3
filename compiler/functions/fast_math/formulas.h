// exp and its relatives for f32, without branches, a vector at a time.
//
// How: x = n ln 2 + r with |r| <= ln 2 / 2, and e^r - 1 = r + r^2 q(r), q a
// polynomial of degree 4 (least largest error, 0.05 ULP of e^r). The others
// are quotients of that:
//   sigmoid(x) = (1 or e^x) / (1 + e^-|x|), the numerator by the sign of x
//   tanh(x)    = -t / (2 + t), t = e^-2|x| - 1, with the sign of x
// 2^n comes last, so that denormal results are rounded once.
//
// An Isa, in each of the sources that include this:
//   struct Isa {
//     F, I                     // vectors of floats, of integers
//     Fma(a, b, c), Round(x)   // to the nearest whole number
//     Max(limit, x), Min(limit, x)  // x if it is NaN
//     Scale(x, n)              // x 2^n, rounded once; n from -600 to 128
//   };
// No header of the C++ library, as each source is for its own processors.
// Tested by: tests/runtime/bit_exact/fast_math_test.cpp
#pragma once

#include "compiler/functions/fast_math/code.h"

namespace tjit::fast_math {
namespace {

template <class Isa>
struct Formulas {
  using F = typename Isa::F;
  using I = typename Isa::I;

  static F All(float x) { return F{} + x; }
  static I Sign() { return I{} + static_cast<int>(0x80000000); }
  static F Abs(F x) { return reinterpret_cast<F>(bits(x) & ~Sign()); }
  static F CopySign(F x, F sign) {
    return reinterpret_cast<F>((bits(x) & ~Sign()) | (bits(sign) & Sign()));
  }
  static I bits(F x) { return reinterpret_cast<I>(x); }

  // e^x = 2^n (1 + m)
  struct Power {
    F n, m;
  };
  static Power PowerOf(F x) {
    const F n = Isa::Round(x * 1.44269504F);
    F r = Isa::Fma(n, All(-0.693359375F), x);
    r = Isa::Fma(n, All(2.12194440e-4F), r);
    F q = All(0x1.6db42ap-10F);
    q = Isa::Fma(q, r, All(0x1.123b56p-7F));
    q = Isa::Fma(q, r, All(0x1.55545ep-5F));
    q = Isa::Fma(q, r, All(0x1.55548ep-3F));
    q = Isa::Fma(q, r, All(0.5F));
    return {n, Isa::Fma(r * r, q, r)};
  }

  static F Exp(F x) {
    const Power e = PowerOf(Isa::Max(All(-104), Isa::Min(All(89), x)));
    return Isa::Scale(1.0F + e.m, e.n);
  }

  // Half of it first, as 2^128 is no number.
  static F Expm1(F x) {
    const Power e = PowerOf(Isa::Max(All(-40), Isa::Min(All(89), x)));
    const F half = Isa::Scale(All(0.5F), e.n);
    return CopySign(2.0F * Isa::Fma(e.m, half, half - 0.5F), x);
  }

  static F Tanh(F x) {
    const Power e = PowerOf(Isa::Max(All(-40), -2.0F * Abs(x)));
    const F power = Isa::Scale(All(1), e.n);
    const F t = Isa::Fma(e.m, power, power - 1.0F);
    return CopySign(t / (2.0F + t), x);
  }

  // sigmoid(x) = 2^n q
  struct Quotient {
    F n, q;
  };
  static Quotient SigmoidOf(F x) {
    const Power e = PowerOf(Isa::Max(All(-400), -Abs(x)));
    const F mantissa = 1.0F + e.m;
    const I is_below = x < 0.0F;
    return {is_below ? e.n : All(0), (is_below ? mantissa : All(1)) /
                                         (1.0F + Isa::Scale(mantissa, e.n))};
  }

  static F Sigmoid(F x) {
    const Quotient s = SigmoidOf(x);
    return Isa::Scale(s.q, s.n);
  }

  static F Silu(F x) {
    const Quotient s = SigmoidOf(x);
    const F half = Isa::Round(s.n * 0.5F);
    return Isa::Scale(Isa::Scale(s.q, half) * x, s.n - half);
  }
};

template <class Isa>
FastFormulas Table() {
  using Of = Formulas<Isa>;
  return {
      reinterpret_cast<void*>(&Of::Exp), reinterpret_cast<void*>(&Of::Expm1),
      reinterpret_cast<void*>(&Of::Tanh), reinterpret_cast<void*>(&Of::Sigmoid),
      reinterpret_cast<void*>(&Of::Silu)};
}

}  // namespace
}  // namespace tjit::fast_math

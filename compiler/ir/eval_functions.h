// Functions of one element, through std:: in the compute type. Eager takes most
// of them from vector libraries, whose last bits differ: see MathHook.
// Tested by: tests/compiler/ir/ir_interpreter_test.cpp,
// tests/runtime/against_eager/ir_against_eager_test.cpp
// Source: aten/src/ATen/native/cpu of libtorch 2.13 (UnaryOpsKernel.cpp,
// Activation.cpp, BinaryOpsKernel.cpp).
#pragma once

#include <cmath>

#include "compiler/ir/eval_helpers.h"

namespace tjit::ir::eval {

constexpr double kGeluBeta = M_SQRT2 * M_2_SQRTPI * 0.5;
constexpr double kGeluKappa = 0.044715;

template <class T>
T GeluTanhOf(T x) {
  const T inner = T(kGeluBeta) * (x + T(kGeluKappa) * (x * x * x));
  return T(0.5) * x * (T(1) + std::tanh(inner));
}

template <class T>
T GeluBackwardOf(T gradient, T x) {
  const T cdf = T(0.5) * (T(1) + std::erf(x * T(M_SQRT1_2)));
  const T pdf = T(M_2_SQRTPI * M_SQRT1_2 * 0.5) * std::exp(x * x * T(-0.5));
  return gradient * (cdf + x * pdf);
}

template <class T>
T GeluTanhBackwardOf(T gradient, T x) {
  const T inner = T(kGeluBeta) * (x + T(kGeluKappa) * (x * x * x));
  const T t = std::tanh(inner);
  const T slope = T(kGeluBeta) * (T(1) + T(3) * T(kGeluKappa) * (x * x));
  return gradient *
         (T(0.5) * (T(1) + t) + T(0.5) * x * ((T(1) - t * t) * slope));
}

template <class T>
T SiluBackwardOf(T gradient, T x) {
  const T s = T(1) / (T(1) + std::exp(-x));
  return gradient * s * (T(1) + x * (T(1) - s));
}

template <class T>
T MishBackwardOf(T gradient, T x) {
  const T s = T(1) / (T(1) + std::exp(-x));
  const T t = std::tanh(std::log1p(std::exp(x)));
  return gradient * (t + x * s * (T(1) - t * t));
}

// The logarithm to the base of base^a + base^b.
template <class T>
T LogOfSum(T a, T b, T base) {
  if (std::isinf(a) && a == b) return a;
  const T scale = std::log(base);
  const T less = std::exp(-std::abs(a - b) * scale);
  return Greater(a, b) + std::log1p(less) / scale;
}

TJIT_IR_EVAL(Exp, std::exp(x[0]))
TJIT_IR_EVAL(Exp2, std::exp2(x[0]))
TJIT_IR_EVAL(Expm1, std::expm1(x[0]))
TJIT_IR_EVAL(Log, std::log(x[0]))
TJIT_IR_EVAL(Log2, std::log2(x[0]))
TJIT_IR_EVAL(Log10, std::log10(x[0]))
TJIT_IR_EVAL(Log1p, std::log1p(x[0]))
TJIT_IR_EVAL(ExpInVectors, std::exp(x[0]))
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
TJIT_IR_EVAL(Silu, x[0] / (T(1) + std::exp(-x[0])))
TJIT_IR_EVAL(Mish, x[0] * std::tanh(std::log1p(std::exp(x[0]))))
TJIT_IR_EVAL(Gelu, x[0] * T(0.5) * (T(1) + std::erf(x[0] * T(M_SQRT1_2))))
TJIT_IR_EVAL(GeluTanh, GeluTanhOf(x[0]))
TJIT_IR_EVAL(Softplus, x[0] * x[1] > x[2]
                           ? x[0]
                           : std::log1p(std::exp(x[0] * x[1])) / x[1])
TJIT_IR_EVAL(Elu, x[0] < T(0) ? std::expm1(x[0] * x[3]) * (x[1] * x[2])
                              : x[0] * x[2])
TJIT_IR_EVAL(Pow, std::pow(x[0], x[1]))
TJIT_IR_EVAL(PowScalar, std::pow(x[0], x[1]))
TJIT_IR_EVAL(Softshrink, x[0] > x[1]    ? x[0] - x[1]
                         : x[0] < -x[1] ? x[0] + x[1]
                                        : x[0] * T(0))
TJIT_IR_EVAL(Asinh, std::asinh(x[0]))
TJIT_IR_EVAL(Acosh, std::acosh(x[0]))
TJIT_IR_EVAL(Atanh, std::atanh(x[0]))
TJIT_IR_EVAL(MaximumOfTensors, Greater(x[0], x[1]))
TJIT_IR_EVAL(MinimumOfTensors, Smaller(x[0], x[1]))
TJIT_IR_EVAL(Fmax, std::fmax(x[0], x[1]))
TJIT_IR_EVAL(Fmin, std::fmin(x[0], x[1]))
TJIT_IR_EVAL(Hypot, std::hypot(x[0], x[1]))
TJIT_IR_EVAL(Nextafter, std::nextafter(x[0], x[1]))
TJIT_IR_EVAL(Logaddexp, LogOfSum(x[0], x[1], T(M_E)))
TJIT_IR_EVAL(Logaddexp2, LogOfSum(x[0], x[1], T(2)))
TJIT_IR_EVAL(Xlogy, IsNanValue(x[1]) ? x[1]
                    : x[0] == T(0)   ? T(0)
                                     : x[0] * std::log(x[1]))
TJIT_IR_EVAL(InRemainder, x[0] * T(0) == T(0) ? T(0) : T(0))
TJIT_IR_EVAL(SmoothL1Backward, x[0] <= -x[3]  ? -x[2] * x[1]
                               : x[0] >= x[3] ? x[2] * x[1]
                                              : x[2] * x[0] * x[1] / x[3])
TJIT_IR_EVAL(HuberBackward, x[0] <= -x[3]  ? -x[2] * x[1] * x[3]
                            : x[0] >= x[3] ? x[2] * x[1] * x[3]
                                           : x[2] * x[0] * x[1])
TJIT_IR_EVAL(SiluBackward, SiluBackwardOf(x[0], x[1]))
TJIT_IR_EVAL(MishBackward, MishBackwardOf(x[0], x[1]))
TJIT_IR_EVAL(GeluBackward, GeluBackwardOf(x[0], x[1]))
TJIT_IR_EVAL(GeluTanhBackward, GeluTanhBackwardOf(x[0], x[1]))
TJIT_IR_EVAL(SoftplusBackward, x[1] * x[2] > x[3]
                                   ? x[0]
                                   : x[0] * std::exp(x[1] * x[2]) /
                                         (std::exp(x[1] * x[2]) + T(1)))
TJIT_IR_EVAL(EluBackward,
             x[1] <= T(0) ? x[0] * x[4] * (x[2] * x[3]) * std::exp(x[1] * x[4])
                          : x[0] * x[3])
TJIT_IR_EVAL(EluResultBackward,
             x[1] <= T(0) ? x[0] * x[4] * (x[1] + x[2] * x[3]) : x[0] * x[3])
TJIT_IR_EVAL(HardtanhBackward, x[1] <= x[2] || x[1] >= x[3] ? T(0) : x[0])
TJIT_IR_EVAL(HardswishBackward, x[1] < T(-3)  ? T(0)
                                : x[1] < T(3) ? x[0] * (x[1] / T(3) + T(0.5))
                                              : x[0])
TJIT_IR_EVAL(ShrinkBackward, x[1] >= -x[2] && x[1] <= x[2] ? T(0) : x[0])
TJIT_IR_EVAL(SigmoidBackward, x[0] * (T(1) - x[1]) * x[1])
TJIT_IR_EVAL(TanhBackward, x[0] * std::fma(-x[1], x[1], T(1)))

}  // namespace tjit::ir::eval

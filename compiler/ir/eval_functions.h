// Functions of one element, through std:: in the compute type. Eager takes most
// of them from vector libraries, whose last bits differ: see MathHook.
// Tested by: tests/compiler/ir_interpreter_test.cpp,
// tests/runtime/ir_against_eager_test.cpp
// Source: aten/src/ATen/native/cpu of libtorch 2.13 (UnaryOpsKernel.cpp,
// Activation.cpp, BinaryOpsKernel.cpp).
#pragma once

#include <cmath>

#include "compiler/ir/eval_helpers.h"

namespace tjit::ir::eval {

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

}  // namespace tjit::ir::eval

// Arithmetic, choice, comparison and logic, as eager computes them, for one
// element. Comparisons give 0 or 1. Integers wrap.
// Tested by: tests/compiler/ir/ir_interpreter_test.cpp,
// tests/runtime/against_eager/ir_against_eager_test.cpp
// Source: aten/src/ATen/native/cpu of libtorch 2.13 (BinaryOpsKernel.cpp,
// PointwiseOpsKernel.cpp, Lerp.h, UnaryOpsKernel.cpp).
#pragma once

#include <cmath>

#include "compiler/ir/eval_helpers.h"

namespace tjit::ir::eval {

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

}  // namespace tjit::ir::eval

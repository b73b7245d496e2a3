// Ops that are one IR op over their arguments, described by a spec.
//
// Left out: those whose bits depend on where an element lies
// (position_dependent.cpp, vector_remainder.cpp); copysign, which makes a
// number of the sign of a NaN, and that may be another one than eager's
// (docs/limits.md); fmod and remainder, whose steps SLEEF repeats until all
// numbers of a vector are done.
#include "compiler/lower/op_rules.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::Op;

bool Simple(StepLowering& s, const OpRule& rule) {
  return LowerOperandSpec(s, rule.op, rule.operand_spec);
}

// clamp(x, min, max), each of which may be absent.
bool Clamp(StepLowering& s, const OpRule& rule) {
  if (s.HasScalar(0) && s.HasScalar(1)) {
    return LowerOperandSpec(s, rule.op, "0ab");
  }
  return s.HasScalar(0) ? LowerOperandSpec(s, Op::kMaximum, "0a")
                        : LowerOperandSpec(s, Op::kMinimum, "0b");
}

#define TJIT_UNARY(name, rule, op) \
  { "aten::" name, "aten::" name "_", "aten::" name ".out", rule, Op::op, "0" }
#define TJIT_COMPARE(name, op)                            \
  {"aten::" name ".Tensor",                               \
   "aten::" name "_.Tensor",                              \
   "aten::" name ".Tensor_out",                           \
   Simple,                                                \
   Op::op,                                                \
   "01"},                                                 \
  {                                                       \
    "aten::" name ".Scalar", "aten::" name "_.Scalar",    \
        "aten::" name ".Scalar_out", Simple, Op::op, "0a" \
  }

constexpr OpRule kRules[] = {
    {"aten::add.Tensor", "aten::add_.Tensor", "aten::add.out", Simple, Op::kAdd,
     "01a"},
    {"aten::add.Scalar", "aten::add_.Scalar", "aten::add.Scalar_out", Simple,
     Op::kAdd, "0ab"},
    {"aten::sub.Tensor", "aten::sub_.Tensor", "aten::sub.out", Simple, Op::kSub,
     "01a"},
    {"aten::sub.Scalar", "aten::sub_.Scalar", "aten::sub.Scalar_out", Simple,
     Op::kSub, "0ab"},
    {"aten::rsub.Tensor", "", "", Simple, Op::kSub, "10a"},
    {"aten::rsub.Scalar", "", "", Simple, Op::kSub, "a0b"},
    {"aten::mul.Tensor", "aten::mul_.Tensor", "aten::mul.out", Simple, Op::kMul,
     "01"},
    {"aten::mul.Scalar", "aten::mul_.Scalar", "aten::mul.Scalar_out", Simple,
     Op::kMul, "0a"},
    {"aten::div.Tensor", "aten::div_.Tensor", "aten::div.out", Simple, Op::kDiv,
     "01"},
    {"aten::div.Scalar", "aten::div_.Scalar", "aten::div.Scalar_out", Simple,
     Op::kDiv, "0a"},
    {"aten::addcmul", "aten::addcmul_", "aten::addcmul.out", Simple,
     Op::kAddcmul, "012a"},
    {"aten::addcdiv", "aten::addcdiv_", "aten::addcdiv.out", Simple,
     Op::kAddcdiv, "012a"},
    {"aten::lerp.Scalar", "aten::lerp_.Scalar", "aten::lerp.Scalar_out", Simple,
     Op::kLerp, "01a"},
    TJIT_UNARY("neg", Simple, kNeg),
    TJIT_UNARY("abs", Simple, kAbs),
    TJIT_UNARY("sign", Simple, kSign),
    TJIT_UNARY("sgn", Simple, kSign),
    TJIT_UNARY("reciprocal", Simple, kReciprocal),
    TJIT_UNARY("sqrt", Simple, kSqrt),
    TJIT_UNARY("rsqrt", Simple, kRsqrt),
    TJIT_UNARY("floor", Simple, kFloor),
    TJIT_UNARY("ceil", Simple, kCeil),
    TJIT_UNARY("trunc", Simple, kTrunc),
    TJIT_UNARY("round", Simple, kRound),
    {"aten::relu", "aten::relu_", "aten::relu.out", Simple, Op::kRelu, "0"},
    {"aten::clamp", "aten::clamp_", "aten::clamp.out", Clamp, Op::kClamp, ""},
    {"aten::hardtanh", "aten::hardtanh_", "aten::hardtanh.out", Clamp,
     Op::kClamp, ""},
    {"aten::clamp_min", "aten::clamp_min_", "aten::clamp_min.out", Simple,
     Op::kMaximum, "0a"},
    {"aten::clamp_max", "aten::clamp_max_", "aten::clamp_max.out", Simple,
     Op::kMinimum, "0a"},
    {"aten::where.self", "", "aten::where.self_out", Simple, Op::kWhere, "012"},
    {"aten::masked_fill.Scalar", "aten::masked_fill_.Scalar",
     "aten::masked_fill.Scalar_out", Simple, Op::kWhere, "1a0"},
    {"aten::leaky_relu", "aten::leaky_relu_", "aten::leaky_relu.out", Simple,
     Op::kLeakyRelu, "0a"},
    {"aten::threshold", "aten::threshold_", "aten::threshold.out", Simple,
     Op::kThreshold, "00ab"},
    {"aten::threshold_backward", "", "aten::threshold_backward.grad_input",
     Simple, Op::kThreshold, "10aZ"},
    {"aten::tanh_backward", "", "aten::tanh_backward.grad_input", Simple,
     Op::kTanhBackward, "01"},
    {"aten::sigmoid_backward", "", "aten::sigmoid_backward.grad_input", Simple,
     Op::kSigmoidBackward, "01"},
    TJIT_COMPARE("eq", kEq),
    TJIT_COMPARE("ne", kNe),
    TJIT_COMPARE("lt", kLt),
    TJIT_COMPARE("le", kLe),
    TJIT_COMPARE("gt", kGt),
    TJIT_COMPARE("ge", kGe),
    TJIT_UNARY("logical_not", Simple, kLogicalNot),
    {"aten::logical_and", "aten::logical_and_", "aten::logical_and.out", Simple,
     Op::kLogicalAnd, "01"},
    {"aten::logical_or", "aten::logical_or_", "aten::logical_or.out", Simple,
     Op::kLogicalOr, "01"},
    {"aten::logical_xor", "aten::logical_xor_", "aten::logical_xor.out", Simple,
     Op::kLogicalXor, "01"},
    {"aten::isnan", "", "aten::isnan.out", Simple, Op::kIsNan, "0"},
    {"aten::bitwise_and.Tensor", "aten::bitwise_and_.Tensor",
     "aten::bitwise_and.Tensor_out", Simple, Op::kBitAnd, "01"},
    {"aten::bitwise_or.Tensor", "aten::bitwise_or_.Tensor",
     "aten::bitwise_or.Tensor_out", Simple, Op::kBitOr, "01"},
    {"aten::bitwise_xor.Tensor", "aten::bitwise_xor_.Tensor",
     "aten::bitwise_xor.Tensor_out", Simple, Op::kBitXor, "01"},
    TJIT_UNARY("exp", Simple, kExp),
    TJIT_UNARY("expm1", Simple, kExpm1),
    TJIT_UNARY("log", Simple, kLog),
    TJIT_UNARY("log2", Simple, kLog2),
    TJIT_UNARY("log10", Simple, kLog10),
    TJIT_UNARY("log1p", Simple, kLog1p),
    TJIT_UNARY("sin", Simple, kSin),
    TJIT_UNARY("cos", Simple, kCos),
    TJIT_UNARY("tan", Simple, kTan),
    TJIT_UNARY("asin", Simple, kAsin),
    TJIT_UNARY("acos", Simple, kAcos),
    TJIT_UNARY("atan", Simple, kAtan),
    TJIT_UNARY("tanh", Simple, kTanh),
    TJIT_UNARY("erf", Simple, kErf),
    TJIT_UNARY("erfc", Simple, kErfc),
};

#undef TJIT_UNARY
#undef TJIT_COMPARE

}  // namespace

absl::Span<const OpRule> PointwiseRules() { return kRules; }

}  // namespace tjit::lower

// Ops that are one IR op over their arguments, described by a spec.
//
// Left out because eager's bits depend on where an element lies (measured:
// whole vectors against the tail): sigmoid, silu, gelu, softplus, elu, mish,
// softshrink, exp2, sinh, cosh, atanh, atan2, general pow, fmod and remainder
// (f32), maximum, minimum and clamp by tensors (0 against -0, floats only),
// hardtanh_backward.
#include <vector>

#include "compiler/lower/op_rules.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::DType;
using ir::DTypeKind;
using ir::Op;

bool IsFloat(DType dtype) { return InfoOf(dtype).kind == DTypeKind::kFloat; }

bool IsHalf(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16;
}

// The nodes of a spec.
bool Load(StepLowering& s, const char* spec, std::vector<Node>* nodes) {
  for (const char* c = spec; *c != '\0'; ++c) {
    Node node;
    if (*c >= '0' && *c <= '9') {
      if (!s.Tensor(static_cast<std::size_t>(*c - '0'), &node)) return false;
    } else if (*c == 'Z') {
      node = StepLowering::Number(std::int64_t{0});
    } else if (!s.Scalar(static_cast<std::size_t>(*c - 'a'), &node)) {
      return false;
    }
    nodes->push_back(node);
  }
  return true;
}

// Halves are computed in float and rounded by more rules than these; what
// only moves or compares them is the same everywhere.
bool TakesHalves(Op op, const std::vector<Node>& nodes) {
  const ir::OpInfo& info = InfoOf(op);
  if (info.type_rule == ir::TypeRule::kWhere) return true;
  if (info.type_rule != ir::TypeRule::kCompare) return false;
  for (const Node& node : nodes) {
    if (!node.operand.is_tensor()) return false;
  }
  return true;
}

// Converts the operands of `op` to the type that eager computes in.
bool Unify(StepLowering& s, Op op, std::vector<Node>* nodes) {
  const ir::OpInfo& info = InfoOf(op);
  std::vector<Node> common;
  for (std::size_t i = 0; i < nodes->size(); ++i) {
    const char kind = info.operands[i];
    if (kind == 'x' || kind == 't') common.push_back((*nodes)[i]);
  }
  DType dtype = DType::kF32;
  if (!s.CommonDType(common, info.dtypes == ir::DTypeSet::kFloat, &dtype)) {
    return false;
  }
  if (!Contains(info.dtypes, dtype)) {
    return s.Refuse("has no such arithmetic in the IR");
  }
  if (IsHalf(dtype) && !TakesHalves(op, *nodes)) {
    return s.Refuse("computes in a half type");
  }
  for (std::size_t i = 0; i < nodes->size(); ++i) {
    Node& node = (*nodes)[i];
    const char kind = info.operands[i];
    if (kind == 'c') {
      if (node.dtype != DType::kBool) return s.Refuse("has a mask of numbers");
    } else if (node.operand.is_tensor()) {
      node = s.Convert(node, dtype);
    } else if (!IsFloat(dtype) && IsFloat(node.dtype)) {
      return s.Refuse("has a fraction in arithmetic of integers");
    } else if (dtype == DType::kBool && node.dtype != DType::kBool &&
               kind != 'r') {
      return s.Refuse("has a number in arithmetic of booleans");
    }
  }
  return true;
}

bool Simple(StepLowering& s, const OpRule& rule) {
  std::vector<Node> nodes;
  return s.Into(0) && Load(s, rule.spec, &nodes) && Unify(s, rule.op, &nodes) &&
         s.Store(s.Apply(rule.op, nodes));
}

// Eager's integers and halves are not the formula of floats.
bool FloatsOnly(StepLowering& s, const OpRule& rule) {
  Node first;
  if (!s.Into(0) || !s.Tensor(0, &first)) return false;
  if (!IsFloat(first.dtype)) return s.Refuse("is not of floats");
  return Simple(s, rule);
}

// -0 and 0 are equal, and which one wins depends on the place in eager.
bool IntegersOnly(StepLowering& s, const OpRule& rule) {
  Node first;
  if (!s.Into(0) || !s.Tensor(0, &first)) return false;
  if (IsFloat(first.dtype)) {
    return s.Refuse("has bits that depend on the place of an element");
  }
  return Simple(s, rule);
}

// clamp(x, min, max), each of which may be absent.
bool Clamp(StepLowering& s, const OpRule& rule) {
  OpRule bound = rule;
  if (s.HasScalar(0) && s.HasScalar(1)) {
    bound.op = Op::kClamp;
    bound.spec = "0ab";
  } else if (s.HasScalar(0)) {
    bound.op = Op::kMaximum;
    bound.spec = "0a";
  } else {
    bound.op = Op::kMinimum;
    bound.spec = "0b";
  }
  return Simple(s, bound);
}

#define TJIT_UNARY(name, rule, op)                                         \
  {                                                                        \
    "aten::" name, "aten::" name "_", "aten::" name ".out", rule, Op::op, \
        "0"                                                                \
  }
#define TJIT_COMPARE(name, op)                                              \
  {"aten::" name ".Tensor", "aten::" name "_.Tensor",                       \
   "aten::" name ".Tensor_out", Simple, Op::op, "01"},                      \
  {                                                                         \
    "aten::" name ".Scalar", "aten::" name "_.Scalar",                      \
        "aten::" name ".Scalar_out", Simple, Op::op, "0a"                   \
  }

constexpr OpRule kRules[] = {
    {"aten::add.Tensor", "aten::add_.Tensor", "aten::add.out", Simple, Op::kAdd, "01a"},
    {"aten::add.Scalar", "aten::add_.Scalar", "aten::add.Scalar_out", Simple, Op::kAdd, "0ab"},
    {"aten::sub.Tensor", "aten::sub_.Tensor", "aten::sub.out", Simple, Op::kSub, "01a"},
    {"aten::sub.Scalar", "aten::sub_.Scalar", "aten::sub.Scalar_out", Simple, Op::kSub, "0ab"},
    {"aten::rsub.Tensor", "", "", Simple, Op::kSub, "10a"},
    {"aten::rsub.Scalar", "", "", Simple, Op::kSub, "a0b"},
    {"aten::mul.Tensor", "aten::mul_.Tensor", "aten::mul.out", Simple, Op::kMul, "01"},
    {"aten::mul.Scalar", "aten::mul_.Scalar", "aten::mul.Scalar_out", Simple, Op::kMul, "0a"},
    {"aten::div.Tensor", "aten::div_.Tensor", "aten::div.out", Simple, Op::kDiv, "01"},
    {"aten::div.Scalar", "aten::div_.Scalar", "aten::div.Scalar_out", Simple, Op::kDiv, "0a"},
    {"aten::addcmul", "aten::addcmul_", "aten::addcmul.out", FloatsOnly, Op::kAddcmul, "012a"},
    {"aten::addcdiv", "aten::addcdiv_", "aten::addcdiv.out", FloatsOnly, Op::kAddcdiv, "012a"},
    {"aten::lerp.Scalar", "aten::lerp_.Scalar", "aten::lerp.Scalar_out", FloatsOnly, Op::kLerp, "01a"},
    {"aten::lerp.Tensor", "aten::lerp_.Tensor", "aten::lerp.Tensor_out", FloatsOnly, Op::kLerp, "012"},
    TJIT_UNARY("neg", Simple, kNeg),
    TJIT_UNARY("abs", Simple, kAbs),
    TJIT_UNARY("sign", Simple, kSign),
    TJIT_UNARY("sgn", Simple, kSign),
    TJIT_UNARY("reciprocal", Simple, kReciprocal),
    TJIT_UNARY("sqrt", Simple, kSqrt),
    TJIT_UNARY("rsqrt", Simple, kRsqrt),
    TJIT_UNARY("floor", FloatsOnly, kFloor),
    TJIT_UNARY("ceil", FloatsOnly, kCeil),
    TJIT_UNARY("trunc", FloatsOnly, kTrunc),
    TJIT_UNARY("round", FloatsOnly, kRound),
    {"aten::relu", "aten::relu_", "aten::relu.out", Simple, Op::kRelu, "0"},
    {"aten::clamp", "aten::clamp_", "aten::clamp.out", Clamp, Op::kClamp, ""},
    {"aten::hardtanh", "aten::hardtanh_", "aten::hardtanh.out", Clamp, Op::kClamp, ""},
    {"aten::clamp_min", "aten::clamp_min_", "aten::clamp_min.out", Simple, Op::kMaximum, "0a"},
    {"aten::clamp_max", "aten::clamp_max_", "aten::clamp_max.out", Simple, Op::kMinimum, "0a"},
    {"aten::maximum", "", "aten::maximum.out", IntegersOnly, Op::kMaximum, "01"},
    {"aten::minimum", "", "aten::minimum.out", IntegersOnly, Op::kMinimum, "01"},
    {"aten::where.self", "", "aten::where.self_out", Simple, Op::kWhere, "012"},
    {"aten::masked_fill.Scalar", "aten::masked_fill_.Scalar", "aten::masked_fill.Scalar_out", Simple, Op::kWhere, "1a0"},
    {"aten::leaky_relu", "aten::leaky_relu_", "aten::leaky_relu.out", FloatsOnly, Op::kLeakyRelu, "0a"},
    {"aten::threshold", "aten::threshold_", "aten::threshold.out", Simple, Op::kThreshold, "00ab"},
    {"aten::threshold_backward", "", "aten::threshold_backward.grad_input", Simple, Op::kThreshold, "10aZ"},
    {"aten::tanh_backward", "", "aten::tanh_backward.grad_input", FloatsOnly, Op::kTanhBackward, "01"},
    {"aten::sigmoid_backward", "", "aten::sigmoid_backward.grad_input", FloatsOnly, Op::kSigmoidBackward, "01"},
    TJIT_COMPARE("eq", kEq),
    TJIT_COMPARE("ne", kNe),
    TJIT_COMPARE("lt", kLt),
    TJIT_COMPARE("le", kLe),
    TJIT_COMPARE("gt", kGt),
    TJIT_COMPARE("ge", kGe),
    TJIT_UNARY("logical_not", Simple, kLogicalNot),
    {"aten::logical_and", "aten::logical_and_", "aten::logical_and.out", Simple, Op::kLogicalAnd, "01"},
    {"aten::logical_or", "aten::logical_or_", "aten::logical_or.out", Simple, Op::kLogicalOr, "01"},
    {"aten::logical_xor", "aten::logical_xor_", "aten::logical_xor.out", Simple, Op::kLogicalXor, "01"},
    {"aten::isnan", "", "aten::isnan.out", Simple, Op::kIsNan, "0"},
    {"aten::bitwise_and.Tensor", "aten::bitwise_and_.Tensor", "aten::bitwise_and.Tensor_out", Simple, Op::kBitAnd, "01"},
    {"aten::bitwise_or.Tensor", "aten::bitwise_or_.Tensor", "aten::bitwise_or.Tensor_out", Simple, Op::kBitOr, "01"},
    {"aten::bitwise_xor.Tensor", "aten::bitwise_xor_.Tensor", "aten::bitwise_xor.Tensor_out", Simple, Op::kBitXor, "01"},
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

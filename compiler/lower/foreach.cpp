// _foreach_ ops: one op per element of the lists. On the CPU eager calls the
// op for one tensor after another.
#include "compiler/lower/op_rules.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::Op;

bool ForEach(StepLowering& s, const OpRule& rule) {
  const std::size_t count = s.Static(0);  // of the first list
  if (count == 0 || count > s.arg_count()) return s.Refuse("has no list");
  for (std::size_t i = 0; i < count; ++i) {
    s.SetElement(i, count);
    if (!LowerOperandSpec(s, rule.op, rule.operand_spec)) return false;
  }
  return true;
}

bool CopyEach(StepLowering& s, const OpRule&) {
  const std::size_t count = s.Static(0);
  if (count == 0 || count > s.arg_count()) return s.Refuse("has no list");
  for (std::size_t i = 0; i < count; ++i) {
    Node from;
    s.SetElement(i, count);
    if (!s.Into(0) || !s.Tensor(1, &from) || !s.Store(from)) return false;
  }
  return true;
}

bool ZeroEach(StepLowering& s, const OpRule&) {
  const std::size_t count = s.Static(0);
  if (count == 0 || count > s.arg_count()) return s.Refuse("has no list");
  for (std::size_t i = 0; i < count; ++i) {
    s.SetElement(i, count);
    if (!s.Into(0) || !s.Store(StepLowering::Number(std::int64_t{0}))) {
      return false;
    }
  }
  return true;
}

#define TJIT_FOREACH(name, overload, op, spec)                                \
  {                                                                           \
    "aten::_foreach_" name overload, "aten::_foreach_" name "_" overload, "", \
        ForEach, Op::op, spec                                                 \
  }
#define TJIT_FOREACH_UNARY(name, op) TJIT_FOREACH(name, "", op, "0")

constexpr OpRule kRules[] = {
    TJIT_FOREACH("add", ".List", kAdd, "01a"),
    TJIT_FOREACH("add", ".Scalar", kAdd, "0aO"),
    TJIT_FOREACH("add", ".ScalarList", kAdd, "0*O"),
    TJIT_FOREACH("add", ".Tensor", kAdd, "0Ta"),
    TJIT_FOREACH("sub", ".List", kSub, "01a"),
    TJIT_FOREACH("sub", ".Scalar", kSub, "0aO"),
    TJIT_FOREACH("sub", ".ScalarList", kSub, "0*O"),
    TJIT_FOREACH("mul", ".List", kMul, "01"),
    TJIT_FOREACH("mul", ".Scalar", kMul, "0a"),
    TJIT_FOREACH("mul", ".ScalarList", kMul, "0*"),
    TJIT_FOREACH("mul", ".Tensor", kMul, "0T"),
    TJIT_FOREACH("div", ".List", kDiv, "01"),
    TJIT_FOREACH("div", ".Scalar", kDiv, "0a"),
    TJIT_FOREACH("div", ".ScalarList", kDiv, "0*"),
    TJIT_FOREACH("div", ".Tensor", kDiv, "0T"),
    TJIT_FOREACH("addcmul", ".Scalar", kAddcmul, "012a"),
    TJIT_FOREACH("addcmul", ".ScalarList", kAddcmul, "012*"),
    TJIT_FOREACH("addcdiv", ".Scalar", kAddcdiv, "012a"),
    TJIT_FOREACH("addcdiv", ".ScalarList", kAddcdiv, "012*"),
    TJIT_FOREACH("lerp", ".Scalar", kLerp, "01a"),
    TJIT_FOREACH("clamp_min", ".Scalar", kMaximum, "0a"),
    TJIT_FOREACH("clamp_max", ".Scalar", kMinimum, "0a"),
    TJIT_FOREACH_UNARY("abs", kAbs),
    TJIT_FOREACH_UNARY("neg", kNeg),
    TJIT_FOREACH_UNARY("sign", kSign),
    TJIT_FOREACH_UNARY("sqrt", kSqrt),
    TJIT_FOREACH_UNARY("rsqrt", kRsqrt),
    TJIT_FOREACH_UNARY("reciprocal", kReciprocal),
    TJIT_FOREACH_UNARY("exp", kExp),
    TJIT_FOREACH_UNARY("log", kLog),
    TJIT_FOREACH_UNARY("tanh", kTanh),
    {"", "aten::_foreach_copy_", "", CopyEach},
    {"", "aten::_foreach_zero_", "", ZeroEach},
};

#undef TJIT_FOREACH
#undef TJIT_FOREACH_UNARY

}  // namespace

absl::Span<const OpRule> ForeachRules() { return kRules; }

}  // namespace tjit::lower

// LowerOperandSpec(): operands, promotion, and where an op is not claimed.
#include <cmath>
#include <vector>

#include "compiler/lower/op_rules.h"
#include "compiler/lower/step_lowering.h"
#include "support/planted_defect.h"

namespace tjit::lower {
namespace {

using ir::DType;
using ir::DTypeKind;
using ir::Op;

bool IsFloat(DType dtype) { return InfoOf(dtype).kind == DTypeKind::kFloat; }

// The nodes of an operand spec.
bool Load(StepLowering& s, const char* spec, std::vector<Node>* nodes) {
  for (const char* c = spec; *c != '\0'; ++c) {
    Node node;
    bool is_there = true;
    if (*c >= '0' && *c <= '9') {
      is_there = s.Tensor(static_cast<std::size_t>(*c - '0'), &node);
    } else if (*c == 'T') {
      is_there = s.SharedTensor(&node);
    } else if (*c == 'Z' || *c == 'O') {
      node = StepLowering::Number(std::int64_t{*c == 'O'});
    } else {
      is_there = s.Scalar(
          *c == '*' ? s.element() : static_cast<std::size_t>(*c - 'a'), &node);
    }
    if (!is_there) return false;
    nodes->push_back(node);
  }
  return true;
}

bool IsConstantOne(const Node& node) {
  return !node.operand.is_tensor() && node.operand.scalar.is_constant() &&
         node.recorded == 1;
}

bool IsExactConstant(const Node& node, DType dtype) {
  return !node.operand.is_tensor() && node.operand.scalar.is_constant() &&
         IsExact(node.recorded, dtype);
}

// A number that eager takes as a float, though the elements are halves: it is
// rounded by mul_.Scalar alone, and by _foreach_mul_, which calls that.
bool IsFactor(const StepLowering& s, Op op, std::size_t i, const Node& node) {
  return (op == Op::kMul || op == Op::kDiv) && i == 1 &&
         !node.operand.is_tensor() &&
         s.op() != "aten::mul_.Scalar" &&
         !s.op().starts_with("aten::_foreach_mul_.");
}

// Halves are computed in float and rounded. Claimed where that is one rounding
// of operands that are halves themselves, or of factors: eager rounds some
// other scalars, and the product of an add with alpha or not, by its position.
bool TakesHalves(const StepLowering& s, Op op, DType dtype,
                 const std::vector<Node>& nodes) {
  const ir::OpInfo& info = InfoOf(op);
  if (info.type_rule == ir::TypeRule::kWhere) return true;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (info.operands[i] != 'x' || IsExactConstant(nodes[i], dtype) ||
        IsFactor(s, op, i, nodes[i])) {
      continue;
    }
    if (!nodes[i].operand.is_tensor() || nodes[i].dtype != dtype) return false;
  }
  switch (op) {
    case Op::kAdd:
    case Op::kSub:
      return IsConstantOne(nodes[2]);
    case Op::kAddcmul:  // with a value eager rounds once more, by its position
    case Op::kAddcdiv:
      return IsConstantOne(nodes[3]);
    case Op::kMul:
    case Op::kDiv:
    case Op::kNeg:
    case Op::kAbs:
    case Op::kSign:
    case Op::kReciprocal:
    case Op::kFloor:
    case Op::kCeil:
    case Op::kTrunc:
    case Op::kRound:
    case Op::kRelu:
    case Op::kLeakyRelu:
    case Op::kMaximum:
    case Op::kMinimum:
    case Op::kClamp:
    case Op::kThreshold:
    case Op::kSqrt:
    case Op::kExp:
    case Op::kExpm1:
    case Op::kLog:
    case Op::kLog2:
    case Op::kLog10:
    case Op::kLog1p:
    case Op::kSin:
    case Op::kCos:
    case Op::kTan:
    case Op::kAsin:
    case Op::kAcos:
    case Op::kAtan:
    case Op::kTanh:
    case Op::kErf:
    case Op::kErfc:
      return true;
    default:  // those of position_dependent.cpp take whole tensors
      return info.type_rule == ir::TypeRule::kCompare || DependsOnPosition(op);
  }
}

// A weight of 1 between 0 and -0: which of them comes out depends on the place.
// A weight that varies stays on its side of 0.5 (value_classes.def).
bool ClaimsLerp(StepLowering& s, const std::vector<Node>& nodes) {
  const Node& weight = nodes[2];
  if (!IsFloat(nodes[0].dtype)) return s.Refuse("is not of floats");
  if (weight.operand.is_tensor()) return s.Refuse("has a tensor of weights");
  return std::abs(weight.recorded) < 0.5 ||
         (weight.operand.scalar.is_constant() && weight.recorded != 1) ||
         s.Refuse("has a weight that is or may be 1");
}

// Eager's formulas for other types than those of the IR op.
bool Claims(StepLowering& s, Op op, DType dtype,
            const std::vector<Node>& nodes) {
  switch (op) {
    case Op::kAddcmul:
    case Op::kAddcdiv:
    case Op::kFloor:
    case Op::kCeil:
    case Op::kTrunc:
    case Op::kRound:
    case Op::kLeakyRelu:
      return IsFloat(nodes[0].dtype) || s.Refuse("is not of floats");
    case Op::kLerp:
      return ClaimsLerp(s, nodes);
    case Op::kMaximum:
    case Op::kMinimum:
      // -0 and 0 are equal, and which one wins depends on the place.
      return !IsFloat(dtype) || !nodes[1].operand.is_tensor() ||
             s.Refuse("has bits that depend on the place of an element");
    // Where the operand of a product is one element for a whole row, eager's
    // remainder multiplies once, and rounds.
    case Op::kTanhBackward:
      return !s.IsBroadcast(nodes[1]) || s.Refuse("has a broadcast result");
    case Op::kAdd:
    case Op::kSub:
      return !IsFloat(dtype) || IsConstantOne(nodes[2]) ||
             !s.IsBroadcast(nodes[1]) ||
             s.Refuse("adds a broadcast operand times alpha");
    default:
      return true;
  }
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
  if (IsHalf(dtype) && !TakesHalves(s, op, dtype, *nodes)) {
    return s.Refuse("computes in a half type");
  }
  if (!Claims(s, op, dtype, *nodes)) return false;
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

}  // namespace

bool IsExact(double number, DType dtype) {
  if (!IsHalf(dtype)) return true;
  char rounded[8];
  ir::Store(dtype, number, rounded);
  return ir::Load<double>(dtype, rounded) == number;
}

bool LowerOperandSpec(StepLowering& s, ir::Op op, const char* spec) {
  std::vector<Node> nodes;
  if (!s.Into(0) || !Load(s, spec, &nodes) || !Unify(s, op, &nodes)) {
    return false;
  }
  if (Planted(Defect::kSwappedOperands) && (op == Op::kSub || op == Op::kDiv)) {
    std::swap(nodes[0], nodes[1]);
  }
  return s.Store(s.Apply(op, nodes));
}

}  // namespace tjit::lower

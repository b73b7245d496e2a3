// clamp and lerp by tensors: of floats eager's vectors and its remainder differ
// in the sign of zeros. Both formulas are plain ops; which of them an element
// takes says in_remainder, a function of its position alone. So more tensors
// may take part than position-dependent functions have operands.
//
// Lowered only of tensors that lie flat, as the ops of position_dependent.cpp.
// Source: aten/src/ATen/native/cpu/LerpKernel.cpp, TensorCompareKernel.cpp and
// TensorCompare.cpp (clamp with one bound) of libtorch 2.13.
#include <algorithm>
#include <vector>

#include "compiler/lower/op_rules.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::DType;
using ir::Op;

// Three tensors of f32 or f64 that lie flat.
bool LoadFlat(StepLowering& s, std::vector<Node>* nodes) {
  if (!IsFlat(s, 0) || !s.Into(0)) return false;
  const DType dtype = s.target_dtype();
  if (dtype != DType::kF32 && dtype != DType::kF64) {
    return s.Refuse("computes in another type than f32 and f64");
  }
  for (std::size_t i = 0; i < 3; ++i) {
    Node& node = nodes->emplace_back();
    if (!s.Tensor(i, &node)) return false;
  }
  return true;
}

Node Where(StepLowering& s, const Node& c, const Node& a, const Node& b) {
  return s.Apply(Op::kWhere, {c, a, b});
}

// What eager computes in its vectors or behind them, by the position of `like`.
Node ByPosition(StepLowering& s, const Node& like, const Node& in_remainder,
                const Node& in_vectors) {
  const Node is_remainder = s.Apply(
      Op::kNe, {s.Apply(Op::kInRemainder, {like}), StepLowering::Number(0.0)});
  return Where(s, is_remainder, in_remainder, in_vectors);
}

// `best` is a > b for the greater, or a < b; of equal numbers b. NaN if either
// is.
Node Choose(StepLowering& s, Op best, const Node& a, const Node& b) {
  const Node chosen = Where(s, s.Apply(best, {a, b}), a, b);
  return Where(s, s.Apply(Op::kIsNan, {a}), a, chosen);
}

bool IsOfFloats(const StepLowering& s) {
  const auto& args = s.record().args;
  return std::any_of(args.begin(), args.end(), [](const ArgRecord& a) {
    DType dtype;
    return a.slot != kNoSlot && ir::DTypeByNumber(a.geometry->dtype, &dtype) &&
           InfoOf(dtype).kind == ir::DTypeKind::kFloat;
  });
}

// maximum or minimum of the operands of `spec`, by eager's kernels of those,
// which cut otherwise where the result lies in an operand.
bool Bound(StepLowering& s, bool is_least, const char* spec) {
  if (!IsOfFloats(s)) {
    return LowerOperandSpec(s, is_least ? Op::kMaximum : Op::kMinimum, spec);
  }
  if (s.record().args[0].written) {
    return s.Refuse("writes one of its operands");
  }
  return LowerFlatApart(
      s, is_least ? Op::kMaximumOfTensors : Op::kMinimumOfTensors, spec);
}

bool OneBound(StepLowering& s, const OpRule& rule) {
  return Bound(s, rule.op == Op::kMaximum, rule.operand_spec);
}

// (input, least, greatest), one of which may be absent. In vectors the bound is
// taken of two zeros, behind them the input.
bool Clamp(StepLowering& s, const OpRule&) {
  const auto has = [&](std::size_t arg) {
    return s.record().args[arg].slot != kNoSlot;
  };
  if (!has(1) || !has(2)) return Bound(s, has(1), has(1) ? "01" : "02");
  if (!IsOfFloats(s)) return LowerOperandSpec(s, Op::kClamp, "012");
  std::vector<Node> x;
  if (!LoadFlat(s, &x)) return false;
  const Node in_vectors =
      Choose(s, Op::kLt, Choose(s, Op::kGt, x[0], x[1]), x[2]);
  const Node in_remainder =
      Choose(s, Op::kLt, x[2], Choose(s, Op::kGt, x[1], x[0]));
  return s.Store(ByPosition(s, x[0], in_remainder, in_vectors));
}

// (start, end, weight). For a weight of 1 the remainder subtracts a zero from
// the end, where vectors add one.
bool Lerp(StepLowering& s, const OpRule&) {
  std::vector<Node> x;
  if (!LoadFlat(s, &x)) return false;
  const Node one = StepLowering::Number(std::int64_t{1});
  const Node in_vectors = s.Apply(Op::kLerp, x);
  const Node distance = s.Apply(Op::kSub, {x[1], x[0], one});
  const Node zero = s.Apply(Op::kMul, {distance, StepLowering::Number(0.0)});
  const Node end = s.Apply(Op::kSub, {x[1], zero, one});
  const Node is_end = s.Apply(Op::kEq, {x[2], StepLowering::Number(1.0)});
  return s.Store(
      ByPosition(s, x[0], Where(s, is_end, end, in_vectors), in_vectors));
}

constexpr OpRule kRules[] = {
    {"aten::clamp.Tensor", "aten::clamp_.Tensor", "aten::clamp.Tensor_out",
     Clamp},
    {"aten::clamp_min.Tensor", "", "aten::clamp_min.Tensor_out", OneBound,
     Op::kMaximum, "01"},
    {"aten::clamp_max.Tensor", "", "aten::clamp_max.Tensor_out", OneBound,
     Op::kMinimum, "01"},
    {"aten::maximum", "", "aten::maximum.out", OneBound, Op::kMaximum, "01"},
    {"aten::minimum", "", "aten::minimum.out", OneBound, Op::kMinimum, "01"},
    {"aten::lerp.Tensor", "aten::lerp_.Tensor", "aten::lerp.Tensor_out", Lerp},
};

}  // namespace

absl::Span<const OpRule> VectorRemainderRules() { return kRules; }

}  // namespace tjit::lower

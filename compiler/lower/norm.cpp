// Normalizations: statistics of rows by a row function, then eager's formula
// for each element.
// Source: aten/src/ATen/native/cpu/layer_norm_kernel.cpp, as libtorch 2.13 has
// it; that its compiler contracted the last product was found by experiment.
#include <vector>

#include "compiler/lower/op_rules.h"
#include "compiler/lower/rows.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::Op;

bool IsDefined(const StepLowering& s, std::size_t arg) {
  return arg < s.record().args.size() && s.record().args[arg].slot != kNoSlot;
}

// weight * x + bias, in one rounding.
bool Scale(StepLowering& s, Node* x) {
  Node weight, bias = StepLowering::Number(0.0);
  if (!s.Tensor(1, &weight)) return false;
  if (IsDefined(s, 2) && !s.Tensor(2, &bias)) return false;
  for (const Node* node : {&weight, &bias}) {
    if (node->operand.is_tensor() && node->dtype != x->dtype) {
      return s.Refuse("has operands of several types");
    }
  }
  const Node one = StepLowering::Number(1.0);
  *x = s.Apply(Op::kAddcmul, {bias, *x, weight, one});
  return true;
}

// (input, sizes of a row, weight, bias, eps), to the result, the mean and
// 1 / sqrt(variance + eps)
bool LayerNorm(StepLowering& s, const OpRule&) {
  Node x, eps;
  if (!s.Into(1) || !s.Tensor(0, &x) || !s.Scalar(0, &eps)) return false;
  if (s.Static(0) != 1) return s.Refuse("has rows of several dims");
  const std::vector<int> row = {static_cast<int>(x.dims.size()) - 1};
  if (!HasRows(s, 0, row, Floats::kWide, kMaxLongRowBytes)) return false;
  if (s.target_dtype() != x.dtype) return s.Refuse("computes in another type");
  if (IsDefined(s, 2) && !IsDefined(s, 1)) {
    return s.Refuse("has a bias without a weight");
  }
  const Node mean = s.Reduce(Op::kNormMean, x, row, true);
  if (!s.Store(mean) || !s.Into(2) || !s.Tensor(0, &x)) return false;
  const Node rstd = s.Reduce(Op::kNormRstd, x, row, true, &eps);
  if (!s.Store(rstd) || !s.Into(0) || !s.Tensor(0, &x)) return false;
  const Node one = StepLowering::Number(std::int64_t{1});
  Node y = s.Apply(Op::kMul, {s.Apply(Op::kSub, {x, mean, one}), rstd});
  if (IsDefined(s, 1)) {
    if (!Scale(s, &y)) return false;
  } else {
    y = s.Apply(Op::kAdd, {y, StepLowering::Number(0.0), one});
  }
  return s.Store(y);
}

constexpr OpRule kRules[] = {
    {"aten::native_layer_norm", "", "", LayerNorm, Op::kNormMean, ""},
};

}  // namespace

absl::Span<const OpRule> NormRules() { return kRules; }

}  // namespace tjit::lower

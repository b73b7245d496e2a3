// Gradients of normalizations: row functions for what eager adds up of each
// row, functions of columns for what it adds up over rows, and its formula for
// each element.
// Source: aten/src/ATen/native/cpu/layer_norm_kernel.cpp. Which products its
// compiler contracted was found by experiment with libtorch 2.13.
#include <vector>

#include "compiler/lower/op_rules.h"
#include "compiler/lower/rows.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::Op;

// Tensor arguments of native_layer_norm_backward.
enum Argument : std::size_t { kGradient, kInput, kMean, kRstd, kWeight };

// What both kinds of gradients read.
struct Inputs {
  Node gradient, x, mean, rstd;
  Dims rows;  // of what there is one of per row
};

bool Load(StepLowering& s, Inputs* in) {
  const struct {
    std::size_t arg;
    Node* node;
  } all[] = {{kGradient, &in->gradient},
             {kInput, &in->x},
             {kMean, &in->mean},
             {kRstd, &in->rstd}};
  for (const auto& [arg, node] : all) {
    if (!s.Tensor(arg, node)) return false;
    if (node->dtype != s.target_dtype()) {
      return s.Refuse("has operands of several types");
    }
  }
  in->rows = in->x.dims;
  in->rows.back() = Dim{};
  return true;
}

// a * b + c, in one rounding.
Node Fma(StepLowering& s, const Dims& dims, const Node& a, const Node& b,
         const Node& c) {
  return s.ApplyAt(dims, Op::kAddcmul, {c, a, b, StepLowering::Number(1.0)});
}

// The gradient of the input:
//   sum_x = sum(gradient * x * weight), sum = sum(gradient * weight)
//   b = (sum * mean - sum_x) * rstd^3 / n
//   c = -b * mean - sum * rstd / n
//   rstd * gradient * weight + b * x + c
bool OfInput(StepLowering& s) {
  Inputs in;
  Node weight;
  if (!s.Into(0) || !Load(s, &in)) return false;
  const bool has_weight = s.record().args[kWeight].slot != kNoSlot;
  if (has_weight) {
    if (!s.Tensor(kWeight, &weight)) return false;
    if (weight.dtype != in.x.dtype) {
      return s.Refuse("has operands of several types");
    }
  }
  const std::vector<int> row = {static_cast<int>(in.x.dims.size()) - 1};
  const Node whole = StepLowering::Number(1.0);
  const Node product =
      has_weight ? s.Apply(Op::kMul, {in.gradient, in.x}) : in.gradient;
  const Node sum_x =
      s.ReduceAt(Op::kDot, {product, has_weight ? weight : in.x}, row, whole);
  const Node sum =
      has_weight ? s.ReduceAt(Op::kDot, {in.gradient, weight}, row, whole)
                 : s.ReduceAt(Op::kSumSequential, {in.gradient}, row, whole);
  const auto at_rows = [&](Op op, const std::vector<Node>& nodes) {
    return s.ApplyAt(in.rows, op, nodes);
  };
  s.Fix({in.x.dims.back()});
  const auto n = in.x.dims.back().size;
  const Node scale = StepLowering::Number(
      in.x.dtype == ir::DType::kF32
          ? static_cast<double>(1.0F / static_cast<float>(n))
          : 1.0 / static_cast<double>(n));
  Node b = Fma(s, in.rows, sum, in.mean, at_rows(Op::kNeg, {sum_x}));
  for (const Node& factor : {in.rstd, in.rstd, in.rstd, scale}) {
    b = at_rows(Op::kMul, {b, factor});
  }
  const Node shift =
      at_rows(Op::kMul, {at_rows(Op::kMul, {sum, in.rstd}), scale});
  const Node c = Fma(s, in.rows, at_rows(Op::kNeg, {b}), in.mean,
                     at_rows(Op::kNeg, {shift}));
  Node y = s.Apply(Op::kMul, {in.rstd, in.gradient});
  if (has_weight) y = s.Apply(Op::kMul, {y, weight});
  y = s.Apply(Op::kAddcmul, {y, b, in.x, StepLowering::Number(1.0)});
  return s.Store(
      s.Apply(Op::kAdd, {y, c, StepLowering::Number(std::int64_t{1})}));
}

// Those of the weight and of the bias, over all rows: of the gradient times
// x * rstd - mean * rstd, and of the gradient. Eager adds up some rows on each
// thread, and then what the threads have.
bool OfColumns(StepLowering& s) {
  const TensorGeometry& g = s.record().args[kInput].geometry;
  if (g.numel() < 2 * g.sizes[g.ndim - 1]) {
    return s.Refuse("has less than two rows");
  }
  if (s.threads() < 1) return s.Refuse("adds up as many parts as threads");
  std::vector<int> leading;
  for (int d = 0; d + 1 < g.ndim; ++d) leading.push_back(d);
  const Node parts = StepLowering::Number(static_cast<double>(s.threads()));
  Inputs in;
  if (s.HasResult(1)) {
    if (!s.Into(1) || !Load(s, &in)) return false;
    const Node minus = s.ApplyAt(in.rows, Op::kNeg, {in.rstd});
    const Node b = s.ApplyAt(in.rows, Op::kMul, {minus, in.mean});
    const Node y = Fma(s, in.x.dims, in.rstd, in.x, b);
    if (!s.Store(
            s.Reduce(Op::kDot, {in.gradient, y}, leading, false, &parts))) {
      return false;
    }
  }
  if (!s.HasResult(2)) return true;
  return s.Into(2) && Load(s, &in) &&
         s.Store(
             s.Reduce(Op::kSumSequential, in.gradient, leading, false, &parts));
}

// (gradient, input, sizes of a row, mean, rstd, weight, bias, mask)
bool LayerNormBackward(StepLowering& s, const OpRule&) {
  const ArgRecord& input = s.record().args[kInput];
  if (s.Static(0) != 1) return s.Refuse("has rows of several dims");
  if (!HasRows(s, kInput, {input.geometry->ndim - 1})) return false;
  if (s.HasResult(0) && !OfInput(s)) return false;
  return (!s.HasResult(1) && !s.HasResult(2)) || OfColumns(s);
}

constexpr OpRule kRules[] = {
    {"aten::native_layer_norm_backward", "", "", LayerNormBackward, Op::kDot,
     ""},
};

}  // namespace

absl::Span<const OpRule> NormBackwardRules() { return kRules; }

}  // namespace tjit::lower

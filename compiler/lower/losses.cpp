// Losses: eager's formula for each element, and where it says so the sum or the
// mean of them all, which eager computes as such over a tensor in between.
// Source: aten/src/ATen/native/Loss.cpp, cpu/BinaryOpsKernel.cpp (smooth_l1,
// huber, mse) and cpu/PointwiseOpsKernel.cpp of libtorch 2.13.
#include <numeric>
#include <vector>

#include "compiler/lower/op_rules.h"
#include "compiler/lower/rows.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::DType;
using ir::Op;

enum Reduction : std::uint64_t { kNone = 0, kMean = 1, kSum = 2 };

Node Sub(StepLowering& s, const Node& a, const Node& b) {
  return s.Apply(Op::kSub, {a, b, StepLowering::Number(std::int64_t{1})});
}

Node Mul(StepLowering& s, const Node& a, const Node& b) {
  return s.Apply(Op::kMul, {a, b});
}

// Tensors 0 to `count`, all of one type, f32 or f64, which is the target's.
bool Load(StepLowering& s, std::size_t count, std::vector<Node>* nodes) {
  const DType dtype = s.target_dtype();
  if (dtype != DType::kF32 && dtype != DType::kF64) {
    return s.Refuse("computes in another type than f32 and f64");
  }
  for (std::size_t i = 0; i < count; ++i) {
    Node node;
    if (!s.Tensor(i, &node)) return false;
    if (node.dtype != dtype) return s.Refuse("has operands of several types");
    nodes->push_back(node);
  }
  return true;
}

// (input - target)^2
bool Square(StepLowering& s, const std::vector<Node>& x, Node* loss) {
  const Node difference = Sub(s, x[0], x[1]);
  *loss = Mul(s, difference, difference);
  return true;
}

// |input - target|, and the scalar that tells small ones from large ones.
struct Distance {
  Node z, limit, is_small, half_limit;
};
bool MeasureDistance(StepLowering& s, const std::vector<Node>& x,
                     Distance* distance) {
  double limit = 0;
  if (!s.BakedScalar(0, &limit)) return s.Refuse("has a limit that varies");
  distance->limit = StepLowering::Number(limit);
  distance->half_limit = StepLowering::Number(limit / 2);
  distance->z = s.Apply(Op::kAbs, {Sub(s, x[0], x[1])});
  distance->is_small = s.Apply(Op::kLt, {distance->z, distance->limit});
  return true;
}

Node HalfSquare(StepLowering& s, const Node& z) {
  return Mul(s, Mul(s, z, StepLowering::Number(0.5)), z);
}

// z < beta ? z^2 / 2 / beta : z - beta / 2
bool SmoothL1(StepLowering& s, const std::vector<Node>& x, Node* loss) {
  Distance d;
  if (!MeasureDistance(s, x, &d)) return false;
  const Node small = s.Apply(Op::kDiv, {HalfSquare(s, d.z), d.limit});
  const Node large = Sub(s, d.z, d.half_limit);
  *loss = s.Apply(Op::kWhere, {d.is_small, small, large});
  return true;
}

// z < delta ? z^2 / 2 : (z - delta / 2) * delta
bool Huber(StepLowering& s, const std::vector<Node>& x, Node* loss) {
  Distance d;
  if (!MeasureDistance(s, x, &d)) return false;
  const Node large = Mul(s, Sub(s, d.z, d.half_limit), d.limit);
  *loss = s.Apply(Op::kWhere, {d.is_small, HalfSquare(s, d.z), large});
  return true;
}

// (input, target, reduction, ...); the formula by `spec`.
bool FormulaOf(StepLowering& s, const char* spec, Node* loss) {
  std::vector<Node> x;
  if (!Load(s, 2, &x)) return false;
  switch (spec[0]) {
    case 's':
      return SmoothL1(s, x, loss);
    case 'h':
      return Huber(s, x, loss);
    default:
      return Square(s, x, loss);
  }
}

bool Loss(StepLowering& s, const OpRule& rule) {
  Node loss;
  if (s.Static(0) == kNone) {
    return s.Into(0) && FormulaOf(s, rule.operand_spec, &loss) && s.Store(loss);
  }
  const auto ndim = static_cast<std::size_t>(s.record().args[0].geometry->ndim);
  std::vector<int> all(ndim);
  std::iota(all.begin(), all.end(), 0);
  if (!s.Into(0) || !HasWhole(s, 0, all) || !HasWhole(s, 1, all)) return false;
  if (!s.target_is_fresh()) return s.Refuse("reduces into an argument");
  if (!s.IntoBetween(0) || !FormulaOf(s, rule.operand_spec, &loss) ||
      !s.Into(0)) {
    return false;
  }
  const Op op = s.Static(0) == kMean ? Op::kMean : Op::kSum;
  return s.Store(s.Reduce(op, loss, all, false));
}

double CountOf(StepLowering& s, const Node& x) {
  s.Fix(x.dims);
  double count = 1;
  for (const Dim& dim : x.dims) count *= static_cast<double>(dim.size);
  return count;
}

// (gradient, input, target, reduction): 2 / n * (input - target) * gradient
bool MseLossBackward(StepLowering& s, const OpRule&) {
  std::vector<Node> x;
  if (!s.Into(0) || !Load(s, 3, &x)) return false;
  double factor = 2;
  if (s.Static(0) == kMean) factor /= CountOf(s, x[1]);
  const Node difference = Sub(s, x[1], x[2]);
  const Node scaled = Mul(s, difference, StepLowering::Number(factor));
  return s.Store(Mul(s, scaled, x[0]));
}

// (gradient, input, target, reduction, limit), the gradient a number or like
// the others. Eager's formulas for whole vectors and behind them are others;
// both begin with the difference.
bool LimitedBackward(StepLowering& s, const OpRule& rule) {
  std::vector<Node> x;
  Node limit;
  if (!IsFlat(s, 1) || !s.Into(0) || !Load(s, 3, &x) || !s.Scalar(0, &limit)) {
    return false;
  }
  const TensorGeometry& gradient = s.record().args[0].geometry;
  if (gradient.numel() != 1 && !IsFlat(s, 0)) return false;
  const double norm = s.Static(0) == kMean ? 1 / CountOf(s, x[1]) : 1;
  return s.Store(s.Apply(
      rule.op, {Sub(s, x[1], x[2]), x[0], StepLowering::Number(norm), limit}));
}

// (gradient, input, target, weight or none, reduction):
// gradient * (input - target) / max((1 - input) * input, 1e-12), the number
// being a float's for doubles too, times the weight, divided by n. Eager has
// written the result when it reads the weight.
bool CrossEntropyBackward(StepLowering& s, const OpRule&) {
  constexpr std::size_t kWeight = 3;
  if (s.record().args[kWeight].slot != kNoSlot && !IsApart(s)) return false;
  std::vector<Node> x;
  if (!s.Into(0) || !Load(s, kWeight, &x)) return false;
  const Node scaled = Mul(s, x[0], Sub(s, x[1], x[2]));
  const Node both = Mul(s, Sub(s, StepLowering::Number(1.0), x[1]), x[1]);
  const Node least = StepLowering::Number(double{1e-12F});
  Node gradient =
      s.Apply(Op::kDiv, {scaled, s.Apply(Op::kMaximum, {both, least})});
  if (s.record().args[kWeight].slot != kNoSlot) {
    Node weight;
    if (!s.Tensor(kWeight, &weight)) return false;
    if (weight.dtype != s.target_dtype()) {
      return s.Refuse("has operands of several types");
    }
    gradient = Mul(s, gradient, weight);
  }
  if (s.Static(0) != kMean) return s.Store(gradient);
  return s.Store(
      s.Apply(Op::kDiv, {gradient, StepLowering::Number(CountOf(s, x[1]))}));
}

constexpr OpRule kRules[] = {
    {"aten::binary_cross_entropy_backward", "",
     "aten::binary_cross_entropy_backward.grad_input", CrossEntropyBackward},
    {"aten::mse_loss", "", "aten::mse_loss.out", Loss, Op::kSum, "2"},
    {"aten::smooth_l1_loss", "", "aten::smooth_l1_loss.out", Loss, Op::kSum,
     "s"},
    {"aten::huber_loss", "", "aten::huber_loss.out", Loss, Op::kSum, "h"},
    {"aten::mse_loss_backward", "", "aten::mse_loss_backward.grad_input",
     MseLossBackward},
    {"aten::smooth_l1_loss_backward", "",
     "aten::smooth_l1_loss_backward.grad_input", LimitedBackward,
     Op::kSmoothL1Backward},
    {"aten::huber_loss_backward", "", "aten::huber_loss_backward.out",
     LimitedBackward, Op::kHuberBackward},
};

}  // namespace

absl::Span<const OpRule> LossRules() { return kRules; }

}  // namespace tjit::lower

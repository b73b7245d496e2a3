// Ops that are several IR ops, each with a rounding of its own, as in eager's
// kernels.
// Source: aten/src/ATen/native/cpu of libtorch 2.13 (PowKernel.cpp,
// Activation.cpp, BinaryOpsKernel.cpp, PointwiseOpsKernel.cpp).
#include <vector>

#include "compiler/lower/op_rules.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::DType;
using ir::Op;

// Tensors 0 to `count`, all of one type, f32 or f64, which is the target's.
// `takes_halves`: of halves as well, which become f32, as eager computes all of
// the op in that type and rounds once.
bool Tensors(StepLowering& s, std::size_t count, std::vector<Node>* nodes,
             bool takes_halves) {
  const DType dtype = s.target_dtype();
  if (dtype != DType::kF32 && dtype != DType::kF64 &&
      !(takes_halves && IsHalf(dtype))) {
    return s.Refuse("computes in another type than f32 and f64");
  }
  for (std::size_t i = 0; i < count; ++i) {
    Node node;
    if (!s.Tensor(i, &node)) return false;
    if (node.dtype != dtype) return s.Refuse("has operands of several types");
    nodes->push_back(IsHalf(dtype) ? s.Convert(node, DType::kF32) : node);
  }
  return true;
}

bool Floats(StepLowering& s, std::size_t count, std::vector<Node>* nodes) {
  return s.Into(0) && Tensors(s, count, nodes, false);
}
bool FloatsOrHalves(StepLowering& s, std::size_t count,
                    std::vector<Node>* nodes) {
  return s.Into(0) && Tensors(s, count, nodes, true);
}

Node Sub(StepLowering& s, const Node& a, const Node& b) {
  return s.Apply(Op::kSub, {a, b, StepLowering::Number(std::int64_t{1})});
}

Node Mul(StepLowering& s, const Node& a, const Node& b) {
  return s.Apply(Op::kMul, {a, b});
}

// The exponents that eager has formulas for, and the others.
bool Pow(StepLowering& s, const OpRule&) {
  std::vector<Node> x;
  double exponent = 0;
  if (!Floats(s, 1, &x)) return false;
  if (!s.BakedScalar(0, &exponent)) return s.Refuse("has a varying exponent");
  if (exponent == 0) return s.Store(StepLowering::Number(1.0));
  if (exponent == 1) return s.Store(x[0]);
  if (exponent == 0.5) return s.Store(s.Apply(Op::kSqrt, x));
  if (exponent == -0.5) return s.Store(s.Apply(Op::kRsqrt, x));
  if (exponent == -1) return s.Store(s.Apply(Op::kReciprocal, x));
  const bool is_known = exponent == 2 || exponent == 3 || exponent == -2;
  if (!is_known) return LowerFlat(s, Op::kPowScalar, "0a");
  const Node square = Mul(s, x[0], x[0]);
  if (exponent == 2) return s.Store(square);
  return s.Store(exponent == 3 ? Mul(s, square, x[0])
                               : s.Apply(Op::kReciprocal, {square}));
}

bool Frac(StepLowering& s, const OpRule&) {
  std::vector<Node> x;
  return Floats(s, 1, &x) && s.Store(Sub(s, x[0], s.Apply(Op::kTrunc, {x[0]})));
}

// (gradient, input, slope, is_result)
bool LeakyReluBackward(StepLowering& s, const OpRule&) {
  std::vector<Node> x;
  Node slope;
  if (!FloatsOrHalves(s, 2, &x) || !s.Scalar(0, &slope)) return false;
  const Node is_positive = s.Apply(Op::kGt, {x[1], StepLowering::Number(0.0)});
  return s.Store(s.Apply(Op::kWhere, {is_positive, x[0], Mul(s, x[0], slope)}));
}

Node Zero() { return StepLowering::Number(0.0); }

Node Where(StepLowering& s, const Node& condition, const Node& a,
           const Node& b) {
  return s.Apply(Op::kWhere, {condition, a, b});
}

// (input, lambda)
bool Hardshrink(StepLowering& s, const OpRule&) {
  std::vector<Node> x;
  double lambda = 0;
  if (!FloatsOrHalves(s, 1, &x)) return false;
  if (!s.BakedScalar(0, &lambda)) return s.Refuse("has a varying lambda");
  if (!IsExact(lambda, s.target_dtype())) {
    return s.Refuse("has a lambda that eager rounds to a half");
  }
  const Node is_small =
      s.Apply(Op::kLogicalAnd,
              {s.Apply(Op::kGe, {x[0], StepLowering::Number(-lambda)}),
               s.Apply(Op::kLe, {x[0], StepLowering::Number(lambda)})});
  return s.Store(Where(s, is_small, Zero(), x[0]));
}

// (gradient, input): a sixth of the gradient between -3 and 3; the sixth is a
// float's for doubles too.
bool HardsigmoidBackward(StepLowering& s, const OpRule&) {
  std::vector<Node> x;
  if (!FloatsOrHalves(s, 2, &x)) return false;
  const Node is_inside = s.Apply(
      Op::kLogicalAnd, {s.Apply(Op::kGt, {x[1], StepLowering::Number(-3.0)}),
                        s.Apply(Op::kLt, {x[1], StepLowering::Number(3.0)})});
  const Node sixth = StepLowering::Number(double{1.0F / 6.0F});
  return s.Store(Where(s, is_inside, Mul(s, x[0], sixth), Zero()));
}

// (input, weight)
bool Prelu(StepLowering& s, const OpRule&) {
  std::vector<Node> x;
  if (!FloatsOrHalves(s, 2, &x)) return false;
  const Node is_positive = s.Apply(Op::kGt, {x[0], Zero()});
  return s.Store(Where(s, is_positive, x[0], Mul(s, x[1], x[0])));
}

// (gradient, input, weight): the gradients of input and weight.
bool PreluBackward(StepLowering& s, const OpRule&) {
  for (const std::size_t result : {0, 1}) {
    std::vector<Node> x;
    if (!s.Into(result) || !Tensors(s, 3, &x, true)) return false;
    const Node is_positive = s.Apply(Op::kGt, {x[1], Zero()});
    const Node stored = result == 0
                            ? Where(s, is_positive, x[0], Mul(s, x[2], x[0]))
                            : Where(s, is_positive, Zero(), Mul(s, x[1], x[0]));
    if (!s.Store(stored)) return false;
  }
  return true;
}

// (input): min(input, 0) - log(1 + buffer), and the buffer, e^-|input|. Eager
// fills up its last vector, so all elements have the bits of whole ones.
bool LogSigmoid(StepLowering& s, const OpRule&) {
  for (const std::size_t result : {0, 1}) {
    if (!s.HasResult(result)) continue;
    std::vector<Node> x;
    if (!s.Into(result) || !Tensors(s, 1, &x, true)) return false;
    const Node minus = s.Apply(Op::kNeg, {s.Apply(Op::kAbs, x)});
    const Node buffer = s.Apply(Op::kExpInVectors, {minus});
    const Node stored = result == 1
                            ? buffer
                            : Sub(s, s.Apply(Op::kMinimum, {x[0], Zero()}),
                                  s.Apply(Op::kLog1p, {buffer}));
    if (!s.Store(stored)) return false;
  }
  return true;
}

// (gradient, input, buffer), the buffer being e^-|input|.
bool LogSigmoidBackward(StepLowering& s, const OpRule&) {
  std::vector<Node> x;
  if (!FloatsOrHalves(s, 3, &x)) return false;
  const Node one = StepLowering::Number(1.0);
  const Node is_negative = s.Apply(Op::kLt, {x[1], Zero()});
  const Node sum =
      s.Apply(Op::kAdd, {x[2], one, StepLowering::Number(std::int64_t{1})});
  const Node quotient = s.Apply(Op::kDiv, {x[2], sum});
  const Node slope = Where(s, is_negative, Sub(s, one, quotient),
                           Sub(s, Zero(), s.Apply(Op::kNeg, {quotient})));
  return s.Store(Mul(s, slope, x[0]));
}

// (gradient, mask, scale)
bool DropoutBackward(StepLowering& s, const OpRule&) {
  std::vector<Node> x;
  Node mask, scale;
  if (!Floats(s, 1, &x) || !s.Tensor(1, &mask) || !s.Scalar(0, &scale)) {
    return false;
  }
  if (mask.dtype != DType::kBool) return s.Refuse("has a mask of numbers");
  const Node kept = Mul(s, x[0], s.Convert(mask, x[0].dtype));
  return s.Store(Mul(s, kept, scale));
}

// min(max(x + 3, 0), 6)
Node Ramp(StepLowering& s, const Node& x) {
  const Node moved = s.Apply(Op::kAdd, {x, StepLowering::Number(3.0),
                                        StepLowering::Number(std::int64_t{1})});
  return s.Apply(Op::kClamp,
                 {moved, StepLowering::Number(0.0), StepLowering::Number(6.0)});
}

bool Hardsigmoid(StepLowering& s, const OpRule&) {
  std::vector<Node> x;
  return FloatsOrHalves(s, 1, &x) &&
         s.Store(s.Apply(Op::kDiv, {Ramp(s, x[0]), StepLowering::Number(6.0)}));
}

bool Hardswish(StepLowering& s, const OpRule&) {
  std::vector<Node> x;
  if (!FloatsOrHalves(s, 1, &x)) return false;
  return s.Store(s.Apply(
      Op::kDiv, {Mul(s, x[0], Ramp(s, x[0])), StepLowering::Number(6.0)}));
}

constexpr OpRule kRules[] = {
    {"aten::pow.Tensor_Scalar", "aten::pow_.Scalar",
     "aten::pow.Tensor_Scalar_out", Pow},
    {"aten::frac", "aten::frac_", "aten::frac.out", Frac},
    {"aten::leaky_relu_backward", "", "aten::leaky_relu_backward.grad_input",
     LeakyReluBackward},
    {"aten::native_dropout_backward", "", "", DropoutBackward},
    {"aten::hardsigmoid", "aten::hardsigmoid_", "aten::hardsigmoid.out",
     Hardsigmoid},
    {"aten::hardswish", "aten::hardswish_", "aten::hardswish.out", Hardswish},
    {"aten::hardshrink", "", "aten::hardshrink.out", Hardshrink},
    {"aten::hardsigmoid_backward", "", "aten::hardsigmoid_backward.grad_input",
     HardsigmoidBackward},
    {"aten::_prelu_kernel", "", "", Prelu},
    {"aten::_prelu_kernel_backward", "", "", PreluBackward},
    {"aten::log_sigmoid_forward", "", "", LogSigmoid},
    {"aten::log_sigmoid_backward", "", "aten::log_sigmoid_backward.grad_input",
     LogSigmoidBackward},
};

}  // namespace

absl::Span<const OpRule> CompositeRules() { return kRules; }

}  // namespace tjit::lower

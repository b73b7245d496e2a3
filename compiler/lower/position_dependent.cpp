// Ops whose bits in eager depend on the position of an element: one formula for
// whole vectors, another one behind the last of them (Note [Position-dependent
// functions] in compiler/schedule/math_table.h).
//
// Lowered only where eager runs over one flat array in the order of the
// elements: tensors of one type and one size that are all contiguous. Then the
// element's row-major number is its position, in the function as in eager.
// Otherwise, rows of a strided tensor, broadcast operands, channels last, they
// stay library calls.
// Source: aten/src/ATen/native/cpu/Loops.h (VectorizedLoop2d),
// TensorIterator.cpp (fast_set_up), Activation.cpp (gelu) of libtorch 2.13.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "compiler/lower/op_rules.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::Op;

bool IsContiguous(const TensorGeometry& g) {
  std::int64_t expected = 1;
  for (int d = g.ndim; d-- > 0;) {
    if (g.sizes[d] == 1) continue;
    if (g.strides[d] != expected) return false;
    expected *= g.sizes[d];
  }
  return true;
}

bool SameSizes(const TensorGeometry& a, const TensorGeometry& b) {
  return a.ndim == b.ndim &&
         std::memcmp(a.sizes, b.sizes, sizeof(a.sizes[0]) * a.ndim) == 0;
}

}  // namespace

bool IsFlat(StepLowering& s, std::size_t first_arg) {
  const TensorGeometry* first = nullptr;
  const auto is_like_the_first = [&](const TensorGeometry& g) {
    if (first == nullptr) first = &g;
    return !g.wrapped_number && g.dtype == first->dtype &&
           SameSizes(g, *first) && IsContiguous(g);
  };
  for (std::size_t i = first_arg; i < s.record().args.size(); ++i) {
    const ArgRecord& arg = s.record().args[i];
    if (arg.slot != kNoSlot && !is_like_the_first(arg.geometry)) {
      return s.Refuse("has bits that depend on the place, and is not flat");
    }
  }
  for (const ResultRecord& result : s.record().results) {
    if (result.kind == ResultRecord::Kind::kFresh &&
        !is_like_the_first(result.geometry)) {
      return s.Refuse("has bits that depend on the place, and is not flat");
    }
  }
  ir::DType dtype;
  return (first != nullptr && ir::DTypeByNumber(first->dtype, &dtype) &&
          InfoOf(dtype).kind == ir::DTypeKind::kFloat) ||
         s.Refuse("is not of floats");
}

namespace {

bool Flat(StepLowering& s, const OpRule& rule) {
  return LowerFlat(s, rule.op, rule.operand_spec);
}

// (..., approximate), of which the rule's op is "none", the next one "tanh".
bool Gelu(StepLowering& s, const OpRule& rule) {
  char approximate[8] = {};
  const std::uint64_t word = s.Static(1);
  std::memcpy(approximate, &word, sizeof(approximate));
  const std::string_view name(approximate,
                              std::min<std::size_t>(s.Static(0), 8));
  if (name == "none") return Flat(s, rule);
  if (name != "tanh") return s.Refuse("has an approximation of another name");
  const bool is_backward = rule.op == Op::kGeluBackward;
  return LowerFlat(s, is_backward ? Op::kGeluTanhBackward : Op::kGeluTanh,
                   rule.operand_spec);
}

bool FlatApart(StepLowering& s, const OpRule& rule) {
  return LowerFlatApart(s, rule.op, rule.operand_spec);
}

// (gradient, alpha, scale, input_scale, is_result, self or result)
bool EluBackward(StepLowering& s, const OpRule& rule) {
  return LowerFlat(s, s.Static(0) != 0 ? Op::kEluResultBackward : rule.op,
                   rule.operand_spec);
}

// ---- glu. Eager runs over the halves of each row, and cuts rows alone.

constexpr std::int64_t kWholeVectors = 64;  // elements, of all types and widths

// The halves of argument `arg` along dim static 0. Refuses where some element
// may lie behind the last whole vectors of its row.
struct Halves {
  Node first, second;
  std::size_t dim;
  std::int64_t size;  // of the dim
};
bool Split(StepLowering& s, std::size_t arg, Halves* halves) {
  Node node;
  if (!s.Tensor(arg, &node)) return false;
  if (node.dtype != ir::DType::kF32 && node.dtype != ir::DType::kF64) {
    return s.Refuse("computes in another type than f32 and f64");
  }
  const TensorGeometry& g = s.record().args[arg].geometry;
  const auto dim = static_cast<std::int64_t>(s.Static(0));
  halves->dim = static_cast<std::size_t>(dim < 0 ? dim + g.ndim : dim);
  if (halves->dim >= node.dims.size()) return s.Refuse("has no such dim");
  std::int64_t row = 1;
  for (std::size_t d = halves->dim; d < node.dims.size(); ++d) {
    s.Fix({node.dims[d]});
    row *= node.dims[d].size;
  }
  if (!IsContiguous(g) || row % (2 * kWholeVectors) != 0 ||
      !s.has_one_thread()) {
    return s.Refuse("has bits that depend on the place, and rows with a tail");
  }
  halves->size = node.dims[halves->dim].size / 2;
  halves->first = halves->second = node;
  for (Node* half : {&halves->first, &halves->second}) {
    half->operand.access.sizes[halves->dim] = halves->size;
  }
  ir::Geometry& access = halves->second.operand.access;
  access.offset =
      access.offset + ir::Size(halves->size) * access.strides[halves->dim];
  return true;
}

// (input, dim): first * sigmoid(second)
bool Glu(StepLowering& s, const OpRule&) {
  Halves halves;
  if (!s.Into(0) || !Split(s, 0, &halves)) return false;
  s.Fix({s.target_dims()[halves.dim]});
  s.RelateTarget(0);
  for (Node* half : {&halves.first, &halves.second}) {
    half->dims[halves.dim] = s.target_dims()[halves.dim];
  }
  return s.Store(s.Apply(
      Op::kMul, {halves.first, s.Apply(Op::kSigmoid, {halves.second})}));
}

// (gradient, input, dim): sigmoid(second) * gradient, and
// (1 - sigmoid(second)) * sigmoid(second) * first * gradient
bool GluBackward(StepLowering& s, const OpRule&) {
  Halves halves;
  Node gradient;
  if (!s.Into(0) || !s.Tensor(0, &gradient) || !Split(s, 1, &halves)) {
    return false;
  }
  if (gradient.dtype != halves.first.dtype) {
    return s.Refuse("has operands of several types");
  }
  s.Fix({s.target_dims()[halves.dim], gradient.dims[halves.dim]});
  s.RelateTarget(0);
  s.RelateTarget(1);
  const Dims& dims = gradient.dims;
  for (Node* half : {&halves.first, &halves.second}) {
    half->dims[halves.dim] = dims[halves.dim];
  }
  const auto mul = [&](const Node& a, const Node& b) {
    return s.ApplyAt(dims, Op::kMul, {a, b});
  };
  const Node sigmoid = s.ApplyAt(dims, Op::kSigmoid, {halves.second});
  const Node rest = s.ApplyAt(dims, Op::kSub,
                              {StepLowering::Number(1.0), sigmoid,
                               StepLowering::Number(std::int64_t{1})});
  const Node second = mul(mul(mul(rest, sigmoid), halves.first), gradient);
  std::vector<std::int64_t> starts(dims.size(), 0);
  StepLowering::Part parts[] = {{mul(sigmoid, gradient).operand, starts},
                                {second.operand, starts}};
  parts[1].starts[halves.dim] = halves.size;
  return s.Store(s.Concat({parts[0], parts[1]}));
}

#define TJIT_UNARY(name, op, spec) \
  { "aten::" name, "aten::" name "_", "aten::" name ".out", Flat, Op::op, spec }
#define TJIT_BACKWARD(name, rule, op, spec) \
  { "aten::" name, "", "aten::" name ".grad_input", rule, Op::op, spec }

#define TJIT_BINARY(name, op) \
  { "aten::" name, "aten::" name "_", "aten::" name ".out", Flat, Op::op, "01" }
#define TJIT_OVERLOADED(name, out, op)                                        \
  {                                                                           \
    "aten::" name ".Tensor", "aten::" name "_.Tensor", "aten::" name "." out, \
        Flat, Op::op, "01"                                                    \
  }

constexpr OpRule kRules[] = {
    TJIT_UNARY("sigmoid", kSigmoid, "0"),
    TJIT_UNARY("silu", kSilu, "0"),
    TJIT_UNARY("mish", kMish, "0"),
    {"aten::gelu", "aten::gelu_", "aten::gelu.out", Gelu, Op::kGelu, "0"},
    {"aten::softplus", "", "aten::softplus.out", Flat, Op::kSoftplus, "0ab"},
    TJIT_UNARY("elu", kElu, "0abc"),
    TJIT_UNARY("exp2", kExp2, "0"),
    TJIT_UNARY("sinh", kSinh, "0"),
    TJIT_UNARY("cosh", kCosh, "0"),
    {"aten::pow.Tensor_Tensor", "aten::pow_.Tensor",
     "aten::pow.Tensor_Tensor_out", Flat, Op::kPow, "01"},
    {"aten::softshrink", "", "aten::softshrink.out", FlatApart, Op::kSoftshrink,
     "0a"},
    TJIT_UNARY("asinh", kAsinh, "0"),
    TJIT_UNARY("acosh", kAcosh, "0"),
    TJIT_UNARY("atanh", kAtanh, "0"),
    {"aten::fmax", "", "aten::fmax.out", Flat, Op::kFmax, "01"},
    {"aten::fmin", "", "aten::fmin.out", Flat, Op::kFmin, "01"},
    TJIT_BINARY("atan2", kAtan2),
    TJIT_BINARY("hypot", kHypot),
    TJIT_BINARY("nextafter", kNextafter),
    {"aten::logaddexp", "", "aten::logaddexp.out", Flat, Op::kLogaddexp, "01"},
    {"aten::logaddexp2", "", "aten::logaddexp2.out", Flat, Op::kLogaddexp2,
     "01"},
    TJIT_OVERLOADED("xlogy", "OutTensor", kXlogy),
    TJIT_BACKWARD("silu_backward", Flat, kSiluBackward, "01"),
    {"aten::mish_backward", "", "", Flat, Op::kMishBackward, "01"},
    TJIT_BACKWARD("gelu_backward", Gelu, kGeluBackward, "01"),
    TJIT_BACKWARD("softplus_backward", Flat, kSoftplusBackward, "01ab"),
    TJIT_BACKWARD("elu_backward", EluBackward, kEluBackward, "01abc"),
    TJIT_BACKWARD("hardtanh_backward", FlatApart, kHardtanhBackward, "01ab"),
    {"aten::glu", "", "", Glu},
    {"aten::glu_backward", "", "", GluBackward},
    {"aten::hardswish_backward", "", "", Flat, Op::kHardswishBackward, "01"},
    TJIT_BACKWARD("softshrink_backward", FlatApart, kShrinkBackward, "01a"),
    TJIT_BACKWARD("hardshrink_backward", FlatApart, kShrinkBackward, "01a"),
};

}  // namespace

absl::Span<const OpRule> PositionDependentRules() { return kRules; }

// Where one of these writes into an operand, eager takes yet another way.
bool LowerFlatApart(StepLowering& s, Op op, const char* spec) {
  return IsApart(s) && LowerFlat(s, op, spec);
}

bool LowerFlat(StepLowering& s, Op op, const char* spec) {
  return IsFlat(s, 0) && LowerOperandSpec(s, op, spec);
}

}  // namespace tjit::lower

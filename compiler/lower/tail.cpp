// Ops whose bits in eager depend on the place of an element: one formula for
// whole vectors, another one behind the last of them (Note [Tails] in
// compiler/llvm/math_table.h).
//
// Lowered only where eager runs over one flat array in the order of the
// elements: tensors of one type and one size that are all contiguous. Then the
// element's row-major number is its place, in the function as in eager.
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

// All tensors of the step lie flat, and are alike.
bool IsFlat(StepLowering& s) {
  const TensorGeometry* first = nullptr;
  const auto is_like_the_first = [&](const TensorGeometry& g) {
    if (first == nullptr) first = &g;
    return !g.wrapped_number && g.dtype == first->dtype &&
           SameSizes(g, *first) && IsContiguous(g);
  };
  for (const ArgRecord& arg : s.record().args) {
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

bool Flat(StepLowering& s, const OpRule& rule) {
  return LowerFlat(s, rule.op, rule.spec);
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
                   rule.spec);
}

#define TJIT_UNARY(name, op, spec) \
  { "aten::" name, "aten::" name "_", "aten::" name ".out", Flat, Op::op, spec }
#define TJIT_BACKWARD(name, rule, op, spec) \
  { "aten::" name, "", "aten::" name ".grad_input", rule, Op::op, spec }

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
    TJIT_BACKWARD("silu_backward", Flat, kSiluBackward, "01"),
    {"aten::mish_backward", "", "", Flat, Op::kMishBackward, "01"},
    TJIT_BACKWARD("gelu_backward", Gelu, kGeluBackward, "01"),
    TJIT_BACKWARD("softplus_backward", Flat, kSoftplusBackward, "01ab"),
};

}  // namespace

absl::Span<const OpRule> TailRules() { return kRules; }

bool LowerFlat(StepLowering& s, Op op, const char* spec) {
  return IsFlat(s) && LowerSpec(s, op, spec);
}

}  // namespace tjit::lower

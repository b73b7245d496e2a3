// Ops that move, convert or fill: no arithmetic.
#include "compiler/lower/op_rules.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::Op;

// Tensor 0 or 1 into the target, in whatever type that has. Of bytes of bools
// that are neither 0 nor 1 code makes 1, and so does libtorch's kernel, but for
// that of large transposes.
bool Copy(StepLowering& s, const OpRule& rule) {
  Node from;
  if (!s.Into(0) ||
      !s.Tensor(static_cast<std::size_t>(rule.operand_spec[0] - '0'), &from)) {
    return false;
  }
  const ir::Sizes& strides = from.operand.access.strides;
  if (from.dtype == ir::DType::kBool && s.target_dtype() == ir::DType::kBool &&
      strides.size() == 2 && strides[0] == ir::Size(1)) {
    return s.Refuse("moves the bytes of bools");
  }
  return s.Store(from);
}

// A scalar, or a constant: "a", "b", "Z", "O".
bool Fill(StepLowering& s, const OpRule& rule) {
  Node value = StepLowering::Number(std::int64_t{rule.operand_spec[0] == 'O'});
  const bool is_scalar = rule.operand_spec[0] == 'a';
  if (!s.Into(0) || (is_scalar && !s.Scalar(0, &value))) return false;
  if (InfoOf(value.dtype).kind == ir::DTypeKind::kFloat &&
      InfoOf(s.target_dtype()).kind != ir::DTypeKind::kFloat) {
    return s.Refuse("fills integers with a fraction");
  }
  s.RelateTarget(0);
  return s.Store(value);
}

constexpr OpRule kRules[] = {
    {"", "aten::copy_", "", Copy, Op::kTo, "1"},
    {"aten::clone", "", "", Copy, Op::kTo, "0"},
    {"aten::_to_copy", "", "", Copy, Op::kTo, "0"},
    {"", "aten::fill_.Tensor", "", Copy, Op::kTo, "1"},
    {"aten::fill.Scalar", "aten::fill_.Scalar", "", Fill, Op::kFull, "a",
     false},
    {"", "aten::zero_", "", Fill, Op::kFull, "Z", false},
    {"aten::zeros_like", "", "", Fill, Op::kFull, "Z", false},
    {"aten::ones_like", "", "", Fill, Op::kFull, "O", false},
    {"aten::full_like", "", "", Fill, Op::kFull, "a", false},
    {"aten::new_zeros", "", "", Fill, Op::kFull, "Z", false},
    {"aten::new_ones", "", "", Fill, Op::kFull, "O", false},
    {"aten::new_full", "", "", Fill, Op::kFull, "a", false},
};

}  // namespace

absl::Span<const OpRule> CopyFillRules() { return kRules; }

}  // namespace tjit::lower

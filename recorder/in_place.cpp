#include "recorder/in_place.h"

#include <algorithm>
#include <string_view>

#include "recorder/schema_key.h"

namespace tjit {
namespace {

// Sorted. Comparisons are not here: their results are smaller.
constexpr std::string_view kOps[] = {
    "aten::acos",
    "aten::acosh",
    "aten::add.Scalar",
    "aten::add.Tensor",
    "aten::addcdiv",
    "aten::addcmul",
    "aten::asin",
    "aten::asinh",
    "aten::atan",
    "aten::atan2",
    "aten::atanh",
    "aten::bitwise_and.Tensor",
    "aten::bitwise_not",
    "aten::bitwise_or.Tensor",
    "aten::bitwise_xor.Tensor",
    "aten::ceil",
    "aten::clamp",
    "aten::clamp.Tensor",
    "aten::clamp_max",
    "aten::clamp_max.Tensor",
    "aten::clamp_min",
    "aten::clamp_min.Tensor",
    "aten::copysign.Tensor",
    "aten::cos",
    "aten::cosh",
    "aten::div.Scalar",
    "aten::div.Tensor",
    "aten::div.Tensor_mode",
    "aten::elu",
    "aten::erf",
    "aten::erfc",
    "aten::erfinv",
    "aten::exp",
    "aten::exp2",
    "aten::expm1",
    "aten::floor",
    "aten::fmax",
    "aten::fmin",
    "aten::fmod.Tensor",
    "aten::frac",
    "aten::gelu",
    "aten::gelu_backward",
    "aten::hardshrink",
    "aten::hardsigmoid",
    "aten::hardsigmoid_backward",
    "aten::hardswish",
    "aten::hardswish_backward",
    "aten::hardtanh",
    "aten::hardtanh_backward",
    "aten::hypot",
    "aten::leaky_relu",
    "aten::leaky_relu_backward",
    "aten::lerp.Scalar",
    "aten::lerp.Tensor",
    "aten::lgamma",
    "aten::log",
    "aten::log10",
    "aten::log1p",
    "aten::log2",
    "aten::logaddexp",
    "aten::maximum",
    "aten::minimum",
    "aten::mish",
    "aten::mul.Scalar",
    "aten::mul.Tensor",
    "aten::neg",
    "aten::pow.Scalar",
    "aten::pow.Tensor_Scalar",
    "aten::pow.Tensor_Tensor",
    "aten::reciprocal",
    "aten::relu",
    "aten::remainder.Tensor",
    "aten::round",
    "aten::round.decimals",
    "aten::rsqrt",
    "aten::rsub.Scalar",
    "aten::sgn",
    "aten::sigmoid",
    "aten::sigmoid_backward",
    "aten::sign",
    "aten::silu",
    "aten::silu_backward",
    "aten::sin",
    "aten::sinh",
    "aten::softplus",
    "aten::softplus_backward",
    "aten::softshrink",
    "aten::sqrt",
    "aten::sub.Scalar",
    "aten::sub.Tensor",
    "aten::tan",
    "aten::tanh",
    "aten::tanh_backward",
    "aten::threshold",
    "aten::threshold_backward",
    "aten::trunc",
    "aten::xlogy.Tensor",
};
static_assert(std::is_sorted(std::begin(kOps), std::end(kOps)));

// c10::ScalarType.
bool IsComplex(std::uint64_t dtype) { return dtype >= 8 && dtype <= 10; }

// Note [Complex results over operands]
// libtorch's loops over the last complex numbers of a tensor are compiled
// twice: where the result overlaps an operand, products are rounded before they
// are added up and elsewhere behind it, or the other way round, and sums of
// NaNs have other signs. Nothing of it can be seen in products with real ones,
// and in functions of one tensor. So much for a plan: the program's own
// in-place ops are run in place.
bool KeepsBitsOverOperands(const StepRecord& step, std::string_view op) {
  if (!IsComplex(step.results[0].geometry->dtype)) return true;
  for (const ScalarRecord& scalar : step.scalars) {
    if (IsComplex(scalar.value.type)) return false;
  }
  // Powers may be such products.
  if (step.args.size() == 1) {
    return op != "aten::div.Scalar" && !op.starts_with("aten::pow");
  }
  return op == "aten::mul.Tensor" &&
         !(IsComplex(step.args[0].geometry->dtype) &&
           IsComplex(step.args[1].geometry->dtype));
}

bool LiesAlike(const TensorGeometry& a, const TensorGeometry& b) {
  return a.dtype == b.dtype && a.ndim == b.ndim && a.offset == b.offset &&
         std::equal(a.sizes, a.sizes + a.ndim, b.sizes) &&
         std::equal(a.strides, a.strides + a.ndim, b.strides);
}

}  // namespace

std::vector<std::pair<std::int32_t, std::int32_t>> InPlacePairs(
    const StepRecord& step) {
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  const std::string_view op = OpName(step.op);
  if (step.results.size() != 1 ||
      step.results[0].kind != ResultRecord::Kind::kFresh ||
      !std::binary_search(std::begin(kOps), std::end(kOps), op) ||
      !KeepsBitsOverOperands(step, op)) {
    return pairs;
  }
  const ResultRecord& result = step.results[0];
  for (const ArgRecord& arg : step.args) {
    if (arg.slot == kNoSlot) continue;
    const bool lies_alike = std::all_of(
        step.args.begin(), step.args.end(), [&](const ArgRecord& other) {
          return other.slot != arg.slot ||
                 (!other.written && LiesAlike(other.geometry, result.geometry));
        });
    if (lies_alike) pairs.emplace_back(result.slot, arg.slot);
  }
  return pairs;
}

}  // namespace tjit

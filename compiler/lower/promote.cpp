#include "compiler/lower/promote.h"

namespace tjit::lower {

using ir::DType;
using ir::DTypeKind;

DType Promote(DType a, DType b) {
  if (a == b) return a;
  const DTypeKind x = InfoOf(a).kind, y = InfoOf(b).kind;
  if (x != y) return x > y ? a : b;
  if (x == DTypeKind::kFloat) {
    const bool are_halves = InfoOf(a).bytes == 2 && InfoOf(b).bytes == 2;
    if (are_halves) return DType::kF32;
    return InfoOf(a).bytes > InfoOf(b).bytes ? a : b;
  }
  if (InfoOf(a).bytes == 1 && InfoOf(b).bytes == 1) return DType::kI16;
  return InfoOf(a).bytes > InfoOf(b).bytes ? a : b;
}

std::optional<DType> Promotion::Common() const {
  std::optional<DType> low = number_, high = zero_;
  const auto is_float = [](const std::optional<DType>& dtype) {
    return dtype.has_value() && InfoOf(*dtype).kind == DTypeKind::kFloat;
  };
  // combine_categories(): the higher decides, unless its kind is a lesser one.
  const auto combine = [&](std::optional<DType> higher,
                           std::optional<DType> lower) {
    if (is_float(higher) || !lower) return higher;
    if (!higher) return lower;
    if (*higher == DType::kBool || is_float(lower)) {
      return std::optional<DType>(Promote(*higher, *lower));
    }
    return higher;
  };
  if (has_fraction_ && !is_float(dim_) && !is_float(zero_)) return std::nullopt;
  return combine(dim_, combine(high, low));
}

}  // namespace tjit::lower

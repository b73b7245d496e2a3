#include "compiler/passes/boxes.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace tjit {
namespace {

using ir::Geometry;
using ir::Size;

// A number, or one product of symbols: what offsets are counted in.
bool IsUnit(const Size& stride) {
  if (stride.is_constant()) return stride.constant() > 0;
  return stride.terms().size() == 1 && stride.constant() == 0 &&
         stride.is_never_negative();
}

// Dims that have places, by descending stride. Nothing if strides are symbols
// in another order than row-major.
std::optional<std::vector<std::size_t>> DimsByStride(const Geometry& layout) {
  const bool is_row_major =
      layout.strides == ir::ContiguousStrides(layout.sizes);
  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] == Size(1)) continue;
    const bool is_known = is_row_major || layout.strides[d].is_constant();
    if (!is_known || !IsUnit(layout.strides[d])) return std::nullopt;
    dims.push_back(d);
  }
  if (is_row_major) return dims;
  std::stable_sort(dims.begin(), dims.end(), [&](std::size_t a, std::size_t b) {
    return layout.strides[a].constant() > layout.strides[b].constant();
  });
  return dims;
}

// How many units are in *rest, which loses them.
std::int64_t ExtractUnits(const Size& unit, Size* rest) {
  std::int64_t count = 0;
  if (unit.is_constant()) {
    count = rest->constant() / unit.constant();
  } else {
    const Size::Term& of_unit = *unit.terms().begin();
    for (const Size::Term& term : rest->terms()) {
      if (term.symbols == of_unit.symbols) {
        count = term.coefficient / of_unit.coefficient;
      }
    }
  }
  if (count < 0) return 0;
  *rest = *rest + unit * Size(-count);
  return count;
}

// The part of dim d lies within it; what is not seen is so by rule 6 of
// verifier.h for the outermost dim.
bool IsWithin(const Box& box, const Geometry& layout, std::size_t d,
              bool is_outermost) {
  if (box.sizes[d] == layout.sizes[d]) return box.starts[d] == 0;
  if (!box.sizes[d].is_constant()) return false;
  if (!layout.sizes[d].is_constant()) return is_outermost;
  return box.starts[d] + box.sizes[d].constant() <= layout.sizes[d].constant();
}

}  // namespace

std::optional<Box> BoxOf(const Geometry& access, const Geometry& layout) {
  const auto order = DimsByStride(layout);
  if (!order || !access.offset.is_valid()) return std::nullopt;
  Box box;
  box.starts.assign(layout.sizes.size(), 0);
  box.sizes.assign(layout.sizes.size(), Size(1));
  for (std::size_t j = 0; j < access.sizes.size(); ++j) {
    box.dims.push_back(-1);
    if (access.sizes[j] == Size(1)) continue;
    for (const std::size_t d : *order) {
      const bool is_taken = std::count(box.dims.begin(), box.dims.end(),
                                       static_cast<int>(d)) != 0;
      if (layout.strides[d] == access.strides[j] && !is_taken) {
        box.dims.back() = static_cast<int>(d);
        box.sizes[d] = access.sizes[j];
        break;
      }
    }
    if (box.dims.back() < 0) return std::nullopt;
  }
  Size rest = access.offset;
  for (const std::size_t d : *order) {
    box.starts[d] = ExtractUnits(layout.strides[d], &rest);
    const bool is_outermost = d == order->front();
    if (!IsWithin(box, layout, d, is_outermost)) return std::nullopt;
  }
  return rest == Size(0) ? std::optional(std::move(box)) : std::nullopt;
}

bool AreApart(const Box& a, const Box& b) {
  for (std::size_t d = 0; d < a.starts.size(); ++d) {
    const auto is_before = [&](const Box& x, const Box& y) {
      return x.sizes[d].is_constant() &&
             x.starts[d] + x.sizes[d].constant() <= y.starts[d];
    };
    if (is_before(a, b) || is_before(b, a)) return true;
  }
  return false;
}

Geometry Within(const Geometry& outer, const Box& box, const Geometry& inner) {
  Geometry within;
  within.sizes = inner.sizes;
  within.offset = outer.offset;
  for (const int dim : box.dims) {
    within.strides.push_back(
        dim < 0 ? Size(0) : outer.strides[static_cast<std::size_t>(dim)]);
  }
  for (std::size_t d = 0; d < box.starts.size(); ++d) {
    within.offset = within.offset + Size(box.starts[d]) * outer.strides[d];
  }
  return within;
}

}  // namespace tjit

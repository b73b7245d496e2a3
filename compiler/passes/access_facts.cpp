#include "compiler/passes/access_facts.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace tjit {
namespace {

using ir::Geometry;
using ir::Size;

bool IsLess(const Size& a, const Size& b) {
  return IsNeverNegative(b + a * Size(-1) + Size(-1));
}

// Distance from the first to the last element.
Size SpanOf(const Geometry& g) {
  Size span = 0;
  for (std::size_t d = 0; d < g.sizes.size(); ++d) {
    span = span + (g.sizes[d] + Size(-1)) * g.strides[d];
  }
  return span;
}

// Finds an order of the dims in which each stride is beyond the span of those
// before it.
bool CanNest(std::vector<std::pair<Size, Size>> dims, const Size& span) {
  if (dims.empty()) return true;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const auto [size, stride] = dims[d];
    if (!IsLess(span, stride)) continue;
    std::vector<std::pair<Size, Size>> rest = dims;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(d));
    if (CanNest(std::move(rest), span + (size + Size(-1)) * stride)) {
      return true;
    }
  }
  return false;
}

Geometry WithoutFirstDim(const Geometry& g) {
  Geometry rest = g;
  rest.sizes.erase(rest.sizes.begin());
  rest.strides.erase(rest.strides.begin());
  return rest;
}

}  // namespace

bool IsNeverNegative(const Size& size) { return size.is_never_negative(); }

bool IsInjective(const Geometry& access) {
  std::vector<std::pair<Size, Size>> dims;
  for (std::size_t d = 0; d < access.sizes.size(); ++d) {
    if (access.sizes[d] == Size(0)) return true;
    if (access.sizes[d] == Size(1)) continue;
    dims.emplace_back(access.sizes[d], access.strides[d]);
  }
  return CanNest(std::move(dims), 0);
}

bool AreDisjoint(const Geometry& a, const Geometry& b) {
  const Size last_a = a.offset + SpanOf(a), last_b = b.offset + SpanOf(b);
  if (IsLess(last_a, b.offset) || IsLess(last_b, a.offset)) return true;
  // The same rows of both, and other columns: look into one row.
  if (a.sizes.empty() || b.sizes.empty() || a.strides[0] != b.strides[0]) {
    return false;
  }
  const Geometry row_a = WithoutFirstDim(a), row_b = WithoutFirstDim(b);
  const Size& stride = a.strides[0];
  return IsLess(row_a.offset + SpanOf(row_a), stride) &&
         IsLess(row_b.offset + SpanOf(row_b), stride) &&
         AreDisjoint(row_a, row_b);
}

}  // namespace tjit

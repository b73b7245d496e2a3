#include "compiler/passes/access_facts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
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

Geometry WithoutOnes(const Geometry& g) {
  Geometry rest;
  rest.offset = g.offset;
  for (std::size_t d = 0; d < g.sizes.size(); ++d) {
    if (g.sizes[d] == Size(1)) continue;
    rest.sizes.push_back(g.sizes[d]);
    rest.strides.push_back(g.strides[d]);
  }
  return rest;
}

bool IsConstant(const Geometry& g) {
  bool is_constant = g.offset.is_constant();
  for (const Size& size : g.sizes) is_constant &= size.is_constant();
  for (const Size& stride : g.strides) is_constant &= stride.is_constant();
  return is_constant;
}

using Digits = std::vector<std::pair<std::int64_t, std::int64_t>>;

// Places written as digits over `units` (descending, each divides the one
// before, the last is 1): first and last of each. Nothing if a digit of some
// element would carry into the next.
std::optional<Digits> DigitsOf(const Geometry& g,
                               const std::vector<std::int64_t>& units) {
  Digits digits;
  std::int64_t rest = g.offset.constant();
  for (const std::int64_t unit : units) {
    digits.emplace_back(rest / unit, rest / unit);
    rest %= unit;
  }
  for (std::size_t d = 0; d < g.sizes.size(); ++d) {
    if (g.sizes[d] == Size(1)) continue;
    const auto unit =
        std::find(units.begin(), units.end(), g.strides[d].constant());
    digits[static_cast<std::size_t>(unit - units.begin())].second +=
        g.sizes[d].constant() - 1;
  }
  for (std::size_t i = 1; i < units.size(); ++i) {
    if (digits[i].second >= units[i - 1] / units[i]) return std::nullopt;
  }
  return digits;
}

// Boxes of one grid that lie beside each other in some dim.
bool AreDisjointBoxes(const Geometry& a, const Geometry& b) {
  std::vector<std::int64_t> units = {1};
  for (const Geometry* g : {&a, &b}) {
    for (std::size_t d = 0; d < g->sizes.size(); ++d) {
      if (g->sizes[d].constant() == 0) return true;
      if (g->sizes[d] != Size(1)) units.push_back(g->strides[d].constant());
    }
  }
  std::sort(units.begin(), units.end(), std::greater<>());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  if (units.back() == 0) return false;
  for (std::size_t i = 1; i < units.size(); ++i) {
    if (units[i - 1] % units[i] != 0) return false;
  }
  const std::optional<Digits> x = DigitsOf(a, units), y = DigitsOf(b, units);
  if (!x || !y) return false;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if ((*x)[i].second < (*y)[i].first || (*y)[i].second < (*x)[i].first) {
      return true;
    }
  }
  return false;
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

bool AreDisjoint(const Geometry& first, const Geometry& second) {
  const Geometry a = WithoutOnes(first), b = WithoutOnes(second);
  const Size last_a = a.offset + SpanOf(a), last_b = b.offset + SpanOf(b);
  if (IsLess(last_a, b.offset) || IsLess(last_b, a.offset)) return true;
  if (IsConstant(a) && IsConstant(b) && AreDisjointBoxes(a, b)) return true;
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

#include "compiler/lower/geometry.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "support/assert.h"

namespace tjit::lower {
namespace {

// What one digit of an element's place runs through.
struct Interval {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

// The place of an element as digits over `units` (descending, the last is 1,
// each divides the one before): one interval per unit. Nothing if a digit
// would carry into the next.
std::optional<std::vector<Interval>> DigitsOf(
    const TensorGeometry& g, const std::vector<std::int64_t>& units) {
  std::vector<Interval> digits(units.size());
  std::int64_t rest = g.offset;
  for (std::size_t i = 0; i < units.size(); ++i) {
    digits[i].first = digits[i].last = rest / units[i];
    rest %= units[i];
  }
  for (const int d : DimsByStride(g)) {
    const auto unit = std::find(units.begin(), units.end(), g.strides[d]);
    if (unit == units.end()) return std::nullopt;
    digits[static_cast<std::size_t>(unit - units.begin())].last +=
        g.sizes[d] - 1;
  }
  for (std::size_t i = 1; i < units.size(); ++i) {
    if (digits[i].last >= units[i - 1] / units[i]) return std::nullopt;
  }
  return digits;
}

}  // namespace

Reach ReachOf(const TensorGeometry& g) {
  TJIT_ASSERT(g.numel() > 0);
  return {g.offset, g.last_element()};
}

bool SameElements(const TensorGeometry& a, const TensorGeometry& b) {
  if (a.offset != b.offset) return false;
  int i = 0, j = 0;
  while (true) {
    while (i < a.ndim && a.sizes[i] == 1) ++i;
    while (j < b.ndim && b.sizes[j] == 1) ++j;
    if (i == a.ndim || j == b.ndim) return i == a.ndim && j == b.ndim;
    if (a.sizes[i] != b.sizes[j] || a.strides[i] != b.strides[j]) return false;
    ++i;
    ++j;
  }
}

// Sorted in place, as they come: most are in order, and std::stable_sort() asks
// for memory.
DimOrder DimsByStride(const TensorGeometry& g) {
  DimOrder dims;
  for (int d = 0; d < g.ndim; ++d) {
    if (g.sizes[d] == 1) continue;
    auto at = dims.end();
    while (at != dims.begin() && g.strides[at[-1]] < g.strides[d]) --at;
    dims.insert(at, d);
  }
  return dims;
}

bool IsInjective(const TensorGeometry& g) {
  const DimOrder dims = DimsByStride(g);
  std::int64_t reach = 0;  // of the dims inside
  for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
    if (g.strides[*d] <= reach) return false;
    reach += (g.sizes[*d] - 1) * g.strides[*d];
  }
  return true;
}

bool Covers(const TensorGeometry& g, std::int64_t elements) {
  return g.offset == 0 && g.numel() == elements && IsInjective(g) &&
         ReachOf(g).last == elements - 1;
}

bool AreDisjoint(const TensorGeometry& a, const TensorGeometry& b) {
  const Reach x = ReachOf(a), y = ReachOf(b);
  if (x.last < y.first || y.last < x.first) return true;
  std::vector<std::int64_t> units = {1};
  for (const TensorGeometry* g : {&a, &b}) {
    for (const int d : DimsByStride(*g)) units.push_back(g->strides[d]);
  }
  std::sort(units.begin(), units.end(), std::greater<>());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  if (units.back() == 0) return false;
  for (std::size_t i = 1; i < units.size(); ++i) {
    if (units[i - 1] % units[i] != 0) return false;
  }
  const auto p = DigitsOf(a, units), q = DigitsOf(b, units);
  if (!p || !q) return false;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if ((*p)[i].last < (*q)[i].first || (*q)[i].last < (*p)[i].first) {
      return true;
    }
  }
  return false;
}

}  // namespace tjit::lower

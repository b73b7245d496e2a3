#include "compiler/schedule/loop_shape.h"

#include <cstddef>

namespace tjit::llvm_backend {
namespace {

using ir::Geometry;
using ir::Size;
using ir::Sizes;

// The dims of `g` that are not of size 1, those with the greatest strides
// first: each next one has the stride that the ones within it fill. What does
// not lie densely stays in the order that it has.
std::vector<std::size_t> DimsInOrder(const Sizes& sizes, const Geometry* g) {
  std::vector<std::size_t> left;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != Size(1)) left.push_back(d);
  }
  if (g == nullptr) return left;
  const std::vector<std::size_t> as_given = left;
  std::vector<std::size_t> order(left.size());
  Size expected = 1;
  for (std::size_t place = left.size(); place-- > 0;) {
    std::size_t next = left.size();
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (g->strides[left[i]] == expected) next = i;
    }
    if (next == left.size()) return as_given;
    order[place] = left[next];
    expected = expected * sizes[left[next]];
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(next));
  }
  return order;
}

}  // namespace

LoopShape MakeLoopShape(const Sizes& sizes,
                        const std::vector<Geometry>& accesses, bool in_order) {
  LoopShape shape;
  shape.strides.resize(accesses.size());
  const auto order = DimsInOrder(
      sizes, accesses.empty() || in_order ? nullptr : accesses.data());
  for (const std::size_t d : order) {
    bool merges =
        !shape.sizes.empty() && (shape.sizes.back() * sizes[d]).is_valid();
    for (std::size_t a = 0; a < accesses.size() && merges; ++a) {
      merges = shape.strides[a].back() == accesses[a].strides[d] * sizes[d];
    }
    if (merges) {
      shape.sizes.back() = shape.sizes.back() * sizes[d];
    } else {
      shape.sizes.push_back(sizes[d]);
    }
    for (std::size_t a = 0; a < accesses.size(); ++a) {
      if (!merges) shape.strides[a].emplace_back();
      shape.strides[a].back() = accesses[a].strides[d];
    }
  }
  if (shape.sizes.empty()) {
    shape.sizes.emplace_back(1);
    for (Sizes& strides : shape.strides) strides.emplace_back(0);
  }
  return shape;
}

LoopShape MakeRowsShape(const Sizes& sizes,
                        const std::vector<Geometry>& accesses) {
  const std::size_t row = sizes.size() - 1;
  std::vector<Geometry> around = accesses;
  for (Geometry& g : around) {
    g.sizes.pop_back();
    g.strides.pop_back();
  }
  LoopShape shape =
      MakeLoopShape(Sizes(sizes.begin(), sizes.end() - 1), around, true);
  shape.sizes.push_back(sizes[row]);
  for (std::size_t a = 0; a < accesses.size(); ++a) {
    shape.strides[a].push_back(accesses[a].strides[row]);
  }
  return shape;
}

namespace {

// Of dims [from, to) alone, in order.
LoopShape ShapeOfDims(const Sizes& sizes, std::vector<Geometry> accesses,
                      std::ptrdiff_t from, std::ptrdiff_t to) {
  for (Geometry& g : accesses) {
    g.sizes = Sizes(g.sizes.begin() + from, g.sizes.begin() + to);
    g.strides = Sizes(g.strides.begin() + from, g.strides.begin() + to);
  }
  return MakeLoopShape(Sizes(sizes.begin() + from, sizes.begin() + to),
                       accesses, true);
}

}  // namespace

LoopShape MakeSlabsShape(const Sizes& sizes,
                         const std::vector<Geometry>& accesses, int dim) {
  const auto row = static_cast<std::size_t>(dim);
  LoopShape shape = ShapeOfDims(sizes, accesses, 0, dim);
  const LoopShape columns = ShapeOfDims(
      sizes, accesses, dim + 1, static_cast<std::ptrdiff_t>(sizes.size()));
  const auto insert = [&](Sizes* to, const Sizes& behind, const Size& of_row) {
    to->insert(to->end(), behind.begin(), behind.end());
    to->insert(to->end() - 1, of_row);
  };
  insert(&shape.sizes, columns.sizes, sizes[row]);
  for (std::size_t a = 0; a < accesses.size(); ++a) {
    insert(&shape.strides[a], columns.strides[a], accesses[a].strides[row]);
  }
  shape.split_columns = static_cast<int>(columns.sizes.size()) - 1;
  return shape;
}

}  // namespace tjit::llvm_backend

// Reductions over dims that are neither the last nor the first ones.
//
// Of one result each, element after element (variances, norms of 1 and
// infinity): where the elements lie does not matter to eager's bits, so those
// of a result are put side by side, and become a row.
// Of columns (sums and extremes of a dim with others behind it): eager goes
// from slab to slab, and through each as through a tensor of its own; the
// columns of the slabs are parts of the result.
// Of integers and booleans in any order: one dim after the other.
// Source: aten/src/ATen/native/cpu/ReduceUtils.h, SumKernel.cpp and
// Reduce.h (binary_kernel_reduce) of libtorch 2.13.
#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/lower/rows.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::Op;

bool Contains(const std::vector<int>& dims, int d) {
  return std::find(dims.begin(), dims.end(), d) != dims.end();
}

// The dims that are left, then `dims`.
Node Permute(const Node& x, const std::vector<int>& dims) {
  std::vector<int> order;
  for (int d = 0; d < static_cast<int>(x.dims.size()); ++d) {
    if (!Contains(dims, d)) order.push_back(d);
  }
  order.insert(order.end(), dims.begin(), dims.end());
  Node y = x;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto d = static_cast<std::size_t>(order[i]);
    y.dims[i] = x.dims[d];
    y.operand.access.sizes[i] = x.operand.access.sizes[d];
    y.operand.access.strides[i] = x.operand.access.strides[d];
  }
  return y;
}

// Node with the last `count` dims as one. REQUIRES: they lie row-major.
Node JoinLast(Node node, std::size_t count) {
  const std::size_t left = node.dims.size() - count;
  std::int64_t n = 1;
  for (std::size_t d = left; d < node.dims.size(); ++d) {
    n *= node.dims[d].size;
  }
  ir::Geometry& access = node.operand.access;
  const ir::Size stride = access.strides.back();
  node.dims.resize(left);
  access.sizes.resize(left);
  access.strides.resize(left);
  node.dims.push_back({n, -1});
  access.sizes.emplace_back(n);
  access.strides.push_back(stride);
  return node;
}

// Of the sizes of the target, which has as many elements.
Node AsTarget(StepLowering& s, Node node) {
  const ir::Size offset = node.operand.access.offset;
  node.dims = s.target_dims();
  node.operand.access = ir::Contiguous(s.SizesOf(node.dims));
  node.operand.access.offset = offset;
  return node;
}

}  // namespace

bool CanReduceMiddle(StepLowering& s, std::size_t arg,
                     const std::vector<int>& dims) {
  const TensorGeometry& g = s.record().args[arg].geometry;
  if (!IsFloat(g)) {
    return s.Refuse("computes in another type than f32 and f64");
  }
  if (!IsRowMajor(g)) return s.Refuse("reads rows that do not lie densely");
  if (!s.target_is_fresh()) return s.Refuse("reduces into an argument");
  std::int64_t n = 1;
  for (const int d : dims) n *= g.sizes[d];
  if (n < 2 || g.numel() <= n) {
    return s.Refuse("has less than two elements in a row, or rows");
  }
  return n <= kMaxRowBytes / g.itemsize || s.Refuse("has rows that are long");
}

Node ReduceMiddle(StepLowering& s, Op op, const Node& x,
                  const std::vector<int>& dims, const Node* number) {
  s.Fix(x.dims);
  s.Fix(s.target_dims());
  const bool is_together =
      dims.back() - dims.front() + 1 == static_cast<int>(dims.size());
  Node rows = Permute(x, dims);
  if (!is_together) rows = s.ApplyAt(rows.dims, Op::kTo, {rows});
  rows = JoinLast(std::move(rows), dims.size());
  const int last = static_cast<int>(rows.dims.size()) - 1;
  const Node none = StepLowering::Number(1.0);
  return AsTarget(
      s, s.ReduceAt(op, {rows}, {last}, number == nullptr ? none : *number));
}

bool HasSlabs(const StepLowering& s, std::size_t arg,
              const std::vector<int>& dims) {
  constexpr std::int64_t kMaxSlabs = 32;  // each is a loop
  const TensorGeometry& g = s.record().args[arg].geometry;
  const int first = dims.front(), last = dims.back();
  if (!IsOf(Floats::kAll, g) || !IsRowMajor(g) || !s.target_is_fresh() ||
      last - first + 1 != static_cast<int>(dims.size()) || first == 0 ||
      last + 1 == g.ndim) {
    return false;
  }
  std::int64_t slabs = 1, rows = 1, columns = 1;
  for (int d = 0; d < g.ndim; ++d) {
    (d < first ? slabs : d <= last ? rows : columns) *= g.sizes[d];
  }
  return slabs >= 1 && slabs <= kMaxSlabs && rows > 1 && columns > 1 &&
         columns <= LongestRow(s, arg) &&
         (s.has_one_thread() || g.numel() < kGrain);
}

Node ReduceSlabs(StepLowering& s, Op op, const Node& x,
                 const std::vector<int>& dims) {
  s.Fix(x.dims);
  s.Fix(s.target_dims());
  const auto first = static_cast<std::size_t>(dims.front());
  const auto behind = static_cast<std::size_t>(dims.back()) + 1;
  std::int64_t slabs = 1, rows = 1, columns = 1;
  for (std::size_t d = 0; d < x.dims.size(); ++d) {
    (d < first ? slabs : d < behind ? rows : columns) *= x.dims[d].size;
  }
  const Dims& target = s.target_dims();
  const Node none = StepLowering::Number(1.0);
  std::vector<StepLowering::Part> parts;
  for (std::int64_t slab = 0; slab < slabs; ++slab) {
    Node node = x;
    node.dims = {{rows, -1}, {columns, -1}};
    node.operand.access = ir::Contiguous(s.SizesOf(node.dims));
    node.operand.access.offset =
        x.operand.access.offset + ir::Size(slab * rows * columns);
    StepLowering::Part part;
    part.operand =
        s.Convert(s.ReduceAt(op, {node}, {0}, none), s.target_dtype()).operand;
    // The slab's place in the dims before, the last of them fastest.
    part.starts.assign(target.size(), 0);
    Dims of_part = target;
    std::int64_t place = slab;
    for (std::size_t d = first; d-- > 0;) {
      part.starts[d] = place % target[d].size;
      place /= target[d].size;
      of_part[d] = Dim{};
    }
    part.operand.access = ir::Contiguous(s.SizesOf(of_part));
    parts.push_back(std::move(part));
  }
  return s.Concat(std::move(parts));
}

Node ReduceInAnyOrder(StepLowering& s, Op op, const Node& x,
                      const std::vector<int>& dims) {
  s.Fix(x.dims);
  s.Fix(s.target_dims());
  const Node none = StepLowering::Number(1.0);
  Node left = x;
  for (std::size_t i = dims.size(); i-- > 0;) {
    // One dim moves to the end and becomes 1 there.
    left = s.ReduceAt(op, {Permute(left, {dims[i]})},
                      {static_cast<int>(x.dims.size()) - 1}, none);
    left.dims.pop_back();
    left.operand.access.sizes.pop_back();
    left.operand.access.strides.pop_back();
    const auto at = static_cast<std::ptrdiff_t>(dims[i]);
    left.dims.insert(left.dims.begin() + at, Dim{});
    left.operand.access.sizes.insert(left.operand.access.sizes.begin() + at,
                                     ir::Size(1));
    left.operand.access.strides.insert(left.operand.access.strides.begin() + at,
                                       ir::Size(0));
  }
  return AsTarget(s, left);
}

}  // namespace tjit::lower

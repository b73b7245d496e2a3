#include "compiler/lower/norm_nodes.h"

namespace tjit::lower {

const Node& One() {
  static const Node one = StepLowering::Number(1.0);
  return one;
}

Dims DimsOf(const std::vector<std::int64_t>& sizes) {
  Dims dims;
  for (const std::int64_t size : sizes) dims.push_back({size, -1});
  return dims;
}

Node Reshape(StepLowering& s, Node node, const Dims& dims) {
  if (!node.operand.is_tensor()) return node;
  ir::Sizes sizes;
  for (const Dim& dim : dims) sizes.push_back(s.SizeOf(dim));
  const ir::Size offset = node.operand.access.offset;
  node.dims = dims;
  node.operand.access = ir::Contiguous(sizes);
  node.operand.access.offset = offset;
  return node;
}

Node Slice(Node node, std::size_t dim, std::int64_t from, std::int64_t count) {
  if (!node.operand.is_tensor()) return node;
  ir::Geometry& access = node.operand.access;
  access.offset = access.offset + ir::Size(from) * access.strides[dim];
  access.sizes[dim] = ir::Size(count);
  node.dims[dim] = {count, -1};
  return node;
}

}  // namespace tjit::lower

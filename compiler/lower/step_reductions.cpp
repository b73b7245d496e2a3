// The ops of a step that have dims: reductions, row ops, and values of sizes of
// their own.
#include <algorithm>
#include <string_view>
#include <utility>

#include "compiler/lower/step_lowering.h"

namespace tjit::lower {

using ir::Op;
using ir::Operand;

Node StepLowering::ApplyAt(const Dims& dims, Op op,
                           const std::vector<Node>& nodes) {
  Node result;
  result.dims = dims;
  result.dtype = target_dtype_;
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    operands.push_back(Broadcast(nodes[i], dims).operand);
    const bool is_mask = InfoOf(op).operands[i] == 'c';
    if (operands[i].is_tensor() && !is_mask) result.dtype = nodes[i].dtype;
  }
  if (InfoOf(op).type_rule == ir::TypeRule::kCompare) {
    result.dtype = ir::DType::kBool;
  }
  ir::Value value;
  value.dtype = result.dtype;
  value.layout = ir::Contiguous(sizes_.Of(dims));
  result.operand =
      builder_.Use(builder_.EmitAs(std::move(value), op, std::move(operands)));
  return result;
}

Node StepLowering::ReduceAt(Op op, const std::vector<Node>& nodes,
                            const std::vector<int>& dims, const Node& number) {
  Node result;
  result.dtype = nodes[0].dtype;
  result.dims = nodes[0].dims;
  std::vector<Operand> operands;
  for (const Node& node : nodes) {
    operands.push_back(Broadcast(node, nodes[0].dims).operand);
  }
  if (std::string_view(InfoOf(op).operands).back() == 's') {
    operands.push_back(number.operand);
  }
  for (const int d : dims) result.dims[static_cast<std::size_t>(d)] = Dim{};
  result.operand =
      builder_.Use(builder_.Emit(op, std::move(operands), dims, true));
  return result;
}

Node StepLowering::Reduce(Op op, const Node& node, const std::vector<int>& dims,
                          bool keepdim, const Node* number) {
  return Reduce(op, std::vector<Node>{node}, dims, keepdim, number);
}

Node StepLowering::Reduce(Op op, const std::vector<Node>& nodes,
                          const std::vector<int>& dims, bool keepdim,
                          const Node* number) {
  const Node& node = nodes[0];
  // What is left of the operand is the target.
  std::size_t left = 0;
  for (std::size_t d = 0; d < node.dims.size(); ++d) {
    const bool is_reduced =
        std::find(dims.begin(), dims.end(), static_cast<int>(d)) != dims.end();
    if (!is_reduced) sizes_.Relate(target_.dims[left], node.dims[d]);
    if (!is_reduced || keepdim) ++left;
  }
  Node result;
  result.dims = target_.dims;
  std::vector<Operand> operands = {node.operand};
  for (std::size_t k = 1; k < nodes.size(); ++k) {
    operands.push_back(Broadcast(nodes[k], node.dims).operand);
  }
  if (number != nullptr) operands.push_back(number->operand);
  made_.push_back(builder_.Emit(op, std::move(operands), dims, keepdim));
  result.operand = builder_.Use(made_.back());
  result.dtype = builder_.function().values.back().dtype;
  return result;
}

Node StepLowering::ReduceLeading(Op op, const Node& node,
                                 const std::vector<int>& dims,
                                 const Node* number) {
  sizes_.Fix(node.dims);
  std::int64_t columns = 1;
  for (std::size_t d = dims.size(); d < node.dims.size(); ++d) {
    columns *= node.dims[d].size;
  }
  Node flat = node;
  flat.dims.resize(dims.size());
  ir::Geometry& access = flat.operand.access;
  access.sizes.resize(dims.size());
  access.strides.resize(dims.size());
  access.sizes.emplace_back(columns);
  access.strides.emplace_back(1);
  Node result = Reduce(op, flat, dims, false, number);
  made_.pop_back();  // it has other dims than the target
  result.operand.access = ir::Contiguous(sizes_.Of(target_.dims));
  return result;
}

Node StepLowering::AlongDim(Op op, const std::vector<Node>& nodes, int dim) {
  std::vector<Operand> operands;
  for (const Node& node : nodes) operands.push_back(Broadcast(node).operand);
  Node result;
  result.dtype = nodes[0].dtype;
  result.dims = target_.dims;
  made_.push_back(builder_.Emit(op, std::move(operands), {dim}));
  result.operand = builder_.Use(made_.back());
  return result;
}

}  // namespace tjit::lower

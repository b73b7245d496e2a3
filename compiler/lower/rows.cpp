#include "compiler/lower/rows.h"

#include "compiler/lower/op_rules.h"

namespace tjit::lower {
namespace {

using ir::DType;
using ir::Op;

// A kernel keeps some rows like the operands' in a buffer for each value that
// it hands from one row function to the next.
constexpr std::int64_t kMaxRowBytes = 16 << 10;

// (input, dim, half_to_float), or (gradient, result, dim, dtype of the input)
bool AlongRows(StepLowering& s, const OpRule& rule) {
  const auto operands = static_cast<std::size_t>(rule.spec[0] - '0');
  std::vector<Node> nodes(operands);
  if (!s.Into(0)) return false;
  for (std::size_t i = 0; i < operands; ++i) {
    if (!s.Tensor(i, &nodes[i])) return false;
    if (nodes[i].dtype != s.target_dtype()) {
      return s.Refuse("has operands of several types");
    }
  }
  const auto ndim = static_cast<std::int64_t>(nodes[0].dims.size());
  const auto given = static_cast<std::int64_t>(s.Static(0));
  const int dim = static_cast<int>(given < 0 ? given + ndim : given);
  if (!HasRows(s, 0, {dim})) return false;
  return s.Store(s.AlongDim(rule.op, nodes, dim));
}

constexpr OpRule kRules[] = {
    {"aten::_softmax", "", "aten::_softmax.out", AlongRows, Op::kSoftmax, "1"},
    {"aten::_log_softmax", "", "aten::_log_softmax.out", AlongRows,
     Op::kLogSoftmax, "1"},
    {"aten::_softmax_backward_data", "", "aten::_softmax_backward_data.out",
     AlongRows, Op::kSoftmaxBackward, "2"},
    {"aten::_log_softmax_backward_data", "",
     "aten::_log_softmax_backward_data.out", AlongRows, Op::kLogSoftmaxBackward,
     "2"},
};

}  // namespace

bool HasRows(StepLowering& s, std::size_t arg, const std::vector<int>& dims) {
  const TensorGeometry& g = s.record().args[arg].geometry;
  DType dtype = DType::kCount;
  ir::DTypeByNumber(g.dtype, &dtype);
  if (dtype != DType::kF32 && dtype != DType::kF64) {
    return s.Refuse("computes in another type than f32 and f64");
  }
  const int last = g.ndim - 1;
  if (dims != std::vector<int>{last}) {
    return s.Refuse("goes along other dims than the last");
  }
  const std::int64_t n = g.sizes[last];
  if (n < 2) return s.Refuse("has rows of less than two elements");
  return n <= kMaxRowBytes / g.itemsize || s.Refuse("has rows that are long");
}

bool AddsRowByRow(StepLowering& s, std::size_t arg,
                  const std::vector<int>& dims) {
  if (!HasRows(s, arg, dims)) return false;
  const TensorGeometry& g = s.record().args[arg].geometry;
  const int last = g.ndim - 1;
  bool is_dense = g.strides[last] == 1;
  for (int d = 0; d < last; ++d) {
    is_dense = is_dense && (g.sizes[d] == 1 || g.strides[d] >= g.sizes[last]);
  }
  return is_dense || s.Refuse("reads rows that do not lie densely");
}

absl::Span<const OpRule> RowRules() { return kRules; }

}  // namespace tjit::lower

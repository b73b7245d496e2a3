#include "compiler/lower/rows.h"

#include <algorithm>

#include "compiler/functions/row_functions.h"
#include "compiler/lower/op_rules.h"

namespace tjit::lower {
namespace {

using ir::DType;
using ir::Op;

// A kernel keeps sixteen columns of a slab (tile_shape.h) in a buffer for
// each value that it hands from one function to the next; 512 KiB of such
// buffers are the most that it takes, so that these may be sixteen.
constexpr std::int64_t kMaxColumnBytes = 2048;
// A vector: columns behind the last whole one are not worth their calls.
constexpr std::int64_t kMinSlabBytes = 64;

// Tensor argument `arg` is f32 or f64 and row-major, with some rows along
// `dim`, which is not the last. Else refuses.
bool HasSlabRows(StepLowering& s, std::size_t arg, int dim) {
  const TensorGeometry& g = s.record().args[arg].geometry;
  const TensorGeometry& first = s.record().args[0].geometry;
  if (!std::equal(g.sizes, g.sizes + g.ndim, first.sizes,
                  first.sizes + first.ndim)) {
    return s.Refuse("has operands of several sizes");
  }
  if (!IsFloat(g)) {
    return s.Refuse("computes in another type than f32 and f64");
  }
  if (!IsRowMajor(g)) return s.Refuse("reads rows that do not lie densely");
  if (g.numel() == 0 || g.sizes[dim] < 2) {
    return s.Refuse("has slabs of less than two rows");
  }
  if (g.sizes[dim] > kMaxColumnBytes / g.itemsize) {
    return s.Refuse("has slabs of many rows");
  }
  std::int64_t columns = 1;
  for (int d = dim + 1; d < g.ndim; ++d) columns *= g.sizes[d];
  return columns * g.itemsize >= kMinSlabBytes ||
         s.Refuse("has slabs of few columns");
}

// Each thread has a slab at least (else eager's share columns, and are faster),
// and eager's threads split no vector of columns, where softmax computes with
// vectors. Else refuses.
bool SharesSlabs(StepLowering& s, int dim, Op op) {
  if (s.has_one_thread()) return true;
  const TensorGeometry& g = s.record().args[0].geometry;
  std::int64_t slabs = 1, columns = 1;
  for (int d = 0; d < g.ndim; ++d) {
    if (d != dim) (d < dim ? slabs : columns) *= g.sizes[d];
  }
  s.Fix(s.target_dims());
  if (slabs < s.threads()) return s.Refuse("has fewer slabs than threads");
  const bool is_known =
      op != Op::kSoftmax ||
      (s.threads() > 0 && SlabOrderHolds(RowOp::kSoftmax, g.itemsize == 8,
                                         slabs, columns, s.threads()));
  return is_known || s.Refuse("has columns that are split among threads");
}

// With any rows and more threads than one as with one.
bool RoundsAsOneThread(StepLowering& s, Op op) {
  return op != Op::kSoftmaxBackward || s.has_one_thread() ||
         RowOrderHolds({RowOp::kSoftmaxBackward},
                       s.target_dtype() == DType::kF64, 2, 2, 2) ||
         s.Refuse("rounds floats otherwise with several threads");
}

// (input, dim, half_to_float), or (gradient, result, dim, dtype of the input)
bool AlongRows(StepLowering& s, const OpRule& rule) {
  const auto operands = static_cast<std::size_t>(rule.operand_spec[0] - '0');
  std::vector<Node> nodes(operands);
  if (!s.Into(0)) return false;
  for (std::size_t i = 0; i < operands; ++i) {
    if (!s.Tensor(i, &nodes[i])) return false;
    if (nodes[i].dtype != s.target_dtype()) {
      return s.Refuse("has operands of several types");
    }
  }
  const auto ndim = static_cast<std::int64_t>(nodes[0].dims.size());
  if (ndim == 0) return s.Refuse("is of a single number");
  const auto given = static_cast<std::int64_t>(s.Static(0));
  const int dim = static_cast<int>(given < 0 ? given + ndim : given);
  if (dim + 1 < ndim) {
    for (std::size_t i = 0; i < operands; ++i) {
      if (!HasSlabRows(s, i, dim)) return false;
    }
    if (!SharesSlabs(s, dim, rule.op)) return false;
  } else if (!HasRows(s, 0, {dim}, Floats::kWide, kMaxLongRowBytes) ||
             !RoundsAsOneThread(s, rule.op)) {
    return false;
  }
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

bool IsFloat(const TensorGeometry& g) {
  DType dtype = DType::kCount;
  ir::DTypeByNumber(g.dtype, &dtype);
  return dtype == DType::kF32 || dtype == DType::kF64;
}

bool IsRowMajor(const TensorGeometry& g) {
  std::int64_t stride = 1;
  for (int d = g.ndim - 1; d >= 0; --d) {
    if (g.sizes[d] != 1 && g.strides[d] != stride) return false;
    stride *= g.sizes[d];
  }
  return true;
}

bool IsOf(Floats floats, const TensorGeometry& g) {
  DType dtype = DType::kCount;
  return floats == Floats::kWide
             ? IsFloat(g)
             : ir::DTypeByNumber(g.dtype, &dtype) &&
                   InfoOf(dtype).kind == ir::DTypeKind::kFloat;
}

std::int64_t LongestRow(const StepLowering& s, std::size_t arg,
                        std::int64_t bytes) {
  constexpr int kLeastBytes = 4;
  const int read = s.record().args[arg].geometry->itemsize;
  return bytes /
         std::max<int>({kLeastBytes, read, InfoOf(s.target_dtype()).bytes});
}

bool HasRows(StepLowering& s, std::size_t arg, const std::vector<int>& dims,
             Floats floats, std::int64_t bytes) {
  const TensorGeometry& g = s.record().args[arg].geometry;
  if (!IsOf(floats, g)) {
    return s.Refuse("computes in another type than f32 and f64");
  }
  const int last = g.ndim - 1;
  if (dims != std::vector<int>{last}) {
    return s.Refuse("goes along other dims than the last");
  }
  const std::int64_t n = g.sizes[last];
  if (n < 2) return s.Refuse("has rows of less than two elements");
  return n <= LongestRow(s, arg, bytes) || s.Refuse("has rows that are long");
}

bool AddsRowByRow(StepLowering& s, std::size_t arg,
                  const std::vector<int>& dims, Floats floats) {
  if (!HasRows(s, arg, dims, floats, kMaxLongRowBytes)) return false;
  const TensorGeometry& g = s.record().args[arg].geometry;
  const int last = g.ndim - 1;
  bool is_dense = g.strides[last] == 1;
  for (int d = 0; d < last; ++d) {
    is_dense = is_dense && (g.sizes[d] == 1 || g.strides[d] >= g.sizes[last]);
  }
  if (!is_dense) return s.Refuse("reads rows that do not lie densely");
  return s.has_one_thread() || g.sizes[last] < kGrain ||
         g.numel() > g.sizes[last] || s.Refuse("is split among threads");
}

bool HasColumns(StepLowering& s, std::size_t arg, const std::vector<int>& dims,
                Floats floats) {
  const TensorGeometry& g = s.record().args[arg].geometry;
  if (!IsOf(floats, g)) {
    return s.Refuse("computes in another type than f32 and f64");
  }
  const auto count = static_cast<int>(dims.size());
  if (count >= g.ndim || dims.back() != count - 1) {
    return s.Refuse("goes along other dims than the last, or the first ones");
  }
  if (!IsRowMajor(g)) return s.Refuse("reads rows that do not lie densely");
  if (!s.target_is_fresh()) return s.Refuse("reduces columns into an argument");
  std::int64_t n = 1;
  for (int d = count; d < g.ndim; ++d) n *= g.sizes[d];
  if (n < 2 || g.numel() / n < 2) {
    return s.Refuse("has less than two rows or columns");
  }
  if (n > LongestRow(s, arg)) return s.Refuse("has rows that are long");
  return s.has_one_thread() || g.numel() / n < kGrain ||
         s.Refuse("is split among threads");
}

bool AddsUpColumns(StepLowering& s, std::size_t arg,
                   const std::vector<int>& dims) {
  if (!HasColumns(s, arg, dims, Floats::kAll)) return false;
  return s.has_one_thread() ||
         s.record().args[arg].geometry->numel() < kGrain ||
         s.Refuse("is split among threads");
}

bool HasWhole(StepLowering& s, std::size_t arg, const std::vector<int>& dims,
              bool is_split, Floats floats) {
  const TensorGeometry& g = s.record().args[arg].geometry;
  if (static_cast<int>(dims.size()) != g.ndim) {
    return s.Refuse("leaves some dims");
  }
  return HasElements(s, arg, is_split, floats) &&
         (IsRowMajor(g) || s.Refuse("reads elements that do not lie densely"));
}

bool HasElements(StepLowering& s, std::size_t arg, bool is_split,
                 Floats floats) {
  const TensorGeometry& g = s.record().args[arg].geometry;
  if (!IsOf(floats, g)) {
    return s.Refuse("computes in another type than f32 and f64");
  }
  if (g.numel() < 2) return s.Refuse("has less than two elements");
  return !is_split || s.has_one_thread() || g.numel() < kGrain ||
         s.Refuse("is split among threads");
}

bool IsShortSum(const StepLowering& s, std::size_t arg,
                const std::vector<int>& dims) {
  constexpr std::int64_t kFew = 16;          // sums.h: one level
  constexpr std::int64_t kGroupBytes = 256;  // of the widest vectors
  const TensorGeometry& g = s.record().args[arg].geometry;
  if (!s.target_is_fresh() || !IsOf(Floats::kAll, g) || !IsRowMajor(g) ||
      dims.size() != 1 || g.sizes[dims[0]] < 2 || g.sizes[dims[0]] >= kFew) {
    return false;
  }
  std::int64_t columns = dims[0] + 1 < g.ndim ? 1 : 0;
  for (int d = dims[0] + 1; d < g.ndim; ++d) columns *= g.sizes[d];
  const int bytes = std::min<int>(g.itemsize, InfoOf(s.target_dtype()).bytes);
  return columns > 0 && columns * bytes % kGroupBytes == 0 &&
         (s.has_one_thread() || g.numel() < kGrain);
}

bool IsSumOfShortRows(const StepLowering& s, std::size_t arg,
                      const std::vector<int>& dims) {
  constexpr std::int64_t kFew = 4;  // sums.h: less than it adds side by side
  const TensorGeometry& g = s.record().args[arg].geometry;
  const int last = g.ndim - 1;
  if (!IsOf(Floats::kAll, g) || dims != std::vector<int>{last} ||
      g.sizes[last] < 2 || g.sizes[last] >= kFew || g.strides[last] != 1) {
    return false;
  }
  for (int d = 0; d < last; ++d) {
    if (g.sizes[d] != 1 && g.strides[d] < g.sizes[last]) return false;
  }
  return true;
}

absl::Span<const OpRule> RowRules() { return kRules; }

}  // namespace tjit::lower

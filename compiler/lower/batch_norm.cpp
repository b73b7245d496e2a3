// Batch norm with given statistics, and what all kinds share: eager's formulas
// for each element. Which products its compiler contracted was found by
// experiment with libtorch 2.13.
// Source: aten/src/ATen/native/Normalization.cpp, cpu/batch_norm_kernel.cpp.
#include "compiler/lower/batch_norm.h"

#include <algorithm>
#include <vector>

#include "compiler/lower/op_rules.h"
#include "compiler/lower/rows.h"

namespace tjit::lower {

using ir::Op;

bool HasArgument(const StepLowering& s, std::size_t arg) {
  return s.record().args[arg].slot != kNoSlot;
}

bool IsChannelsLast(const TensorGeometry& g) {
  std::int64_t stride = 1;
  for (int i = 0; i <= g.ndim; ++i) {
    const int d = i == 0 ? 1 : g.ndim - i;
    if (i != 0 && d == 1) continue;
    if (g.sizes[d] != 1 && g.strides[d] != stride) return false;
    stride *= g.sizes[d];
  }
  return true;
}

bool FindLayout(StepLowering& s, std::size_t arg, ChannelLayout* layout) {
  constexpr std::int64_t kMaxRowBytes = 16 << 10;
  constexpr int kMaxThreads = 16;  // each one's part is a loop
  const TensorGeometry& g = s.record().args[arg].geometry;
  if (!IsFloat(g)) {
    return s.Refuse("computes in another type than f32 and f64");
  }
  layout->places = 1;
  for (int d = 2; d < g.ndim; ++d) layout->places *= g.sizes[d];
  layout->elements = g.sizes[0] * layout->places;
  layout->is_by_channels = layout->places == 1 || !IsRowMajor(g);
  if (!IsRowMajor(g) && (g.ndim < 4 || !IsChannelsLast(g))) {
    return s.Refuse("reads what does not lie densely");
  }
  if (g.sizes[1] < 2 || layout->elements < 2) {
    return s.Refuse("has less than two channels or elements of a channel");
  }
  const std::int64_t row = layout->is_by_channels ? g.sizes[1] : layout->places;
  if (row > kMaxRowBytes / g.itemsize) {
    return s.Refuse("has rows that are long");
  }
  if (!layout->is_by_channels) return true;
  if (s.threads() < 1) return s.Refuse("adds up as many parts as threads");
  if (s.threads() > kMaxThreads) return s.Refuse("adds up many parts");
  const std::int64_t rest = layout->elements % RowsOfThread(s, *layout);
  return (RowsOfThread(s, *layout) > 1 && rest != 1) ||
         s.Refuse("has less than two rows for a thread");
}

std::int64_t RowsOfThread(const StepLowering& s, const ChannelLayout& layout) {
  const std::int64_t threads = s.threads();
  return (layout.elements + threads - 1) / threads;
}

void FixPlaces(StepLowering& s, const Dims& dims) {
  s.Fix({dims[0]});
  for (std::size_t d = 2; d < dims.size(); ++d) s.Fix({dims[d]});
}

bool LoadChannels(StepLowering& s, std::size_t arg, const Node& x, Node* node) {
  if (!s.Tensor(arg, node)) return false;
  const TensorGeometry& g = s.record().args[arg].geometry;
  if (node->dtype != x.dtype) return s.Refuse("has operands of several types");
  if (g.ndim != 1 || !IsRowMajor(g)) {
    return s.Refuse("reads channels that do not lie densely");
  }
  return true;
}

Node Wide(Node node, std::size_t ones) {
  if (!node.operand.is_tensor()) return node;
  for (std::size_t d = 0; d < ones; ++d) {
    node.dims.emplace_back();
    node.operand.access.sizes.emplace_back(1);
    node.operand.access.strides.emplace_back(0);
  }
  return node;
}

Node AsRows(StepLowering& s, Node node, const ChannelLayout& layout) {
  const Dims dims = {{layout.elements, -1}, node.dims[1]};
  return Reshape(s, std::move(node), dims);
}

namespace {

// Batch norm with given statistics: input * alpha + beta, where
//   alpha = weight / sqrt(variance + eps), beta = bias - mean * alpha
bool WithGivenStatistics(StepLowering& s) {
  Node x, mean, var, eps, weight = One(), bias = StepLowering::Number(0.0);
  if (!s.Into(0) || !s.Tensor(0, &x)) return false;
  const TensorGeometry& g = s.record().args[0].geometry;
  if (!IsFloat(g)) {
    return s.Refuse("computes in another type than f32 and f64");
  }
  if (!IsRowMajor(g) && (g.ndim < 4 || !IsChannelsLast(g))) {
    return s.Refuse("reads what does not lie densely");
  }
  if (!LoadChannels(s, 3, x, &mean) || !LoadChannels(s, 4, x, &var) ||
      !s.Scalar(1, &eps) ||
      (HasArgument(s, 1) && !LoadChannels(s, 1, x, &weight)) ||
      (HasArgument(s, 2) && !LoadChannels(s, 2, x, &bias))) {
    return false;
  }
  const auto at = [&](Op op, const std::vector<Node>& nodes) {
    return s.ApplyAt(mean.dims, op, nodes);
  };
  const Node one = StepLowering::Number(std::int64_t{1});
  const Node invstd = at(Op::kRsqrt, {at(Op::kAdd, {var, eps, one})});
  const Node alpha = at(Op::kMul, {invstd, weight});
  const Node beta =
      at(Op::kAddcmul, {bias, at(Op::kNeg, {mean}), alpha, One()});
  const std::size_t ones = x.dims.size() - 2;
  return s.Store(
      s.Apply(Op::kAddcmul, {Wide(beta, ones), x, Wide(alpha, ones), One()}));
}

// (input, weight, bias, running mean, running variance, training, momentum,
// eps), to the result, and in training to the mean and 1 / sqrt(variance + eps)
bool BatchNorm(StepLowering& s, const OpRule&) {
  if (s.Static(0) == 0) return WithGivenStatistics(s);
  // Eager moves the statistics before it reads the bias.
  return IsApart(s) && LowerTraining(s);
}

// (gradient, input, weight, running mean, running variance, saved mean, saved
// 1 / sqrt(variance + eps), training, eps, mask)
bool BatchNormBackward(StepLowering& s, const OpRule&) {
  return LowerGradients(s);
}

constexpr OpRule kRules[] = {
    {"aten::native_batch_norm", "", "", BatchNorm, Op::kAddcmul, ""},
    {"aten::native_batch_norm_backward", "", "", BatchNormBackward,
     Op::kSumSequential, ""},
};

}  // namespace

absl::Span<const OpRule> BatchNormRules() { return kRules; }

}  // namespace tjit::lower

// Batch norm, with its own statistics or given ones, and its gradients: eager's
// formulas for each element, with what it adds up of each channel.
// Source: aten/src/ATen/native/Normalization.cpp, cpu/batch_norm_kernel.cpp.
// Which products its compiler contracted was found by experiment with libtorch
// 2.13.
#include <utility>
#include <vector>

#include "compiler/lower/op_rules.h"
#include "compiler/lower/rows.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::DType;
using ir::Op;

const Node& One() {
  static const Node one = StepLowering::Number(1.0);
  return one;
}

bool IsDefined(const StepLowering& s, std::size_t arg) {
  return s.record().args[arg].slot != kNoSlot;
}

// Dim 1 innermost, the others row-major.
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

bool IsFloat(StepLowering& s, std::size_t arg) {
  return lower::IsFloat(s.record().args[arg].geometry) ||
         s.Refuse("computes in another type than f32 and f64");
}

// A tensor with one element per channel.
bool Channels(StepLowering& s, std::size_t arg, const Node& x, Node* node) {
  if (!s.Tensor(arg, node)) return false;
  const TensorGeometry& g = s.record().args[arg].geometry;
  if (node->dtype != x.dtype) return s.Refuse("has operands of several types");
  if (g.ndim != 1 || !IsRowMajor(g)) {
    return s.Refuse("reads channels that do not lie densely");
  }
  return true;
}

// The same with as many dims of size one behind, to be broadcast.
Node Wide(Node node, std::size_t ones) {
  if (!node.operand.is_tensor()) return node;
  for (std::size_t d = 0; d < ones; ++d) {
    node.dims.emplace_back();
    node.operand.access.sizes.emplace_back(1);
    node.operand.access.strides.emplace_back(0);
  }
  return node;
}

// As the dims say, row-major.
Node Lay(StepLowering& s, Node node) {
  ir::Sizes sizes;
  for (const Dim& dim : node.dims) sizes.push_back(s.SizeOf(dim));
  const ir::Size offset = node.operand.access.offset;
  node.operand.access = ir::Contiguous(sizes);
  node.operand.access.offset = offset;
  return node;
}

// What is row-major, and how many places each channel of an image has: some,
// and all are in the sizes of the kernel.
bool HasPlaces(StepLowering& s, std::size_t arg, std::int64_t* places) {
  const TensorGeometry& g = s.record().args[arg].geometry;
  if (!IsFloat(s, arg)) return false;
  if (!IsRowMajor(g)) return s.Refuse("reads what is not row-major");
  *places = 1;
  for (int d = 2; d < g.ndim; ++d) *places *= g.sizes[d];
  if (g.sizes[1] < 2 || *places < 2) {
    return s.Refuse("has less than two channels or places");
  }
  // Eager goes through channels that lie apart faster than a loop of columns.
  constexpr std::int64_t kMostElements = 1 << 18;
  if (g.numel() > kMostElements) return s.Refuse("is large");
  return *places <= (16 << 10) / g.itemsize ||
         s.Refuse("has rows that are long");
}

void FixPlaces(StepLowering& s, const Dims& dims) {
  s.Fix({dims[0]});
  for (std::size_t d = 2; d < dims.size(); ++d) s.Fix({dims[d]});
}

constexpr DType kSum = DType::kF64;  // that eager adds up channels in

// Batch norm that computes statistics:
//   mean and variance of each channel, one element after the other in f64
//   alpha = weight / sqrt(variance + eps), beta = bias - mean * alpha
//   input * alpha + beta
class Training {
 public:
  explicit Training(StepLowering& s) : s_(s) {}

  bool Run() {
    if (!HasPlaces(s_, 0, &places_) || !LoadAll()) return false;
    AddUp();
    const Node one = StepLowering::Number(std::int64_t{1});
    const Node var = s_.Convert(At(Op::kDiv, {squares_, count_}), kSum);
    const Node invstd =
        s_.Convert(At(Op::kRsqrt, {At(Op::kAdd, {var, eps_, one})}), x_.dtype);
    const Node alpha = At(Op::kMul, {invstd, weight_});
    const Node beta =
        At(Op::kAddcmul, {bias_, At(Op::kNeg, {mean_}), alpha, One()});
    const std::size_t ones = x_.dims.size() - 2;
    return s_.Store(s_.Apply(Op::kAddcmul, {Wide(beta, ones), x_,
                                            Wide(alpha, ones), One()})) &&
           s_.Into(1) && s_.Store(mean_) && s_.Into(2) && s_.Store(invstd) &&
           (!IsDefined(s_, 3) || MoveMean()) &&
           (!IsDefined(s_, 4) || MoveVariance());
  }

 private:
  Node At(Op op, const std::vector<Node>& nodes) {
    return s_.ApplyAt({x_.dims[1]}, op, nodes);
  }

  bool LoadAll() {
    if (!s_.has_one_thread()) return s_.Refuse("has channels on all threads");
    if (!s_.BakedScalar(0, &momentum_)) return s_.Refuse("varies its momentum");
    if (!s_.Into(0) || !s_.Tensor(0, &x_) || !s_.Scalar(1, &eps_) ||
        (IsDefined(s_, 1) && !Channels(s_, 1, x_, &weight_)) ||
        (IsDefined(s_, 2) && !Channels(s_, 2, x_, &bias_))) {
      return false;
    }
    if (x_.dtype != DType::kF32) {  // contracts some squares, not all
      return s_.Refuse("adds up squares of f64");
    }
    FixPlaces(s_, x_.dims);
    elements_ = static_cast<double>(x_.dims[0].size * places_);
    count_ = StepLowering::Number(elements_);
    return true;
  }

  // The channels as columns.
  void AddUp() {
    Node x = x_;
    x.dims.resize(2);
    x.dims.push_back({places_, -1});
    x = Lay(s_, x);
    std::swap(x.dims[1], x.dims[2]);
    std::swap(x.operand.access.sizes[1], x.operand.access.sizes[2]);
    std::swap(x.operand.access.strides[1], x.operand.access.strides[2]);
    const auto sum_of = [&](const Node& node) {
      Node sum =
          s_.ReduceAt(Op::kSumInTurn, {s_.Convert(node, kSum)}, {0, 1}, One());
      sum.dims = {x_.dims[1]};
      return Lay(s_, sum);
    };
    mean_ = s_.Convert(At(Op::kDiv, {sum_of(x), count_}), x_.dtype);
    const Node one = StepLowering::Number(std::int64_t{1});
    const Node distance = s_.ApplyAt(x.dims, Op::kSub, {x, mean_, one});
    squares_ = s_.Convert(
        sum_of(s_.ApplyAt(x.dims, Op::kMul, {distance, distance})), x_.dtype);
  }

  bool Load(std::size_t arg, Node* old) {
    return s_.IntoArgument(arg) && Channels(s_, arg, x_, old);
  }
  static Node Rounded(double number) {
    return StepLowering::Number(
        static_cast<double>(static_cast<float>(number)));
  }

  // momentum * mean + (1 - momentum) * what it was
  bool MoveMean() {
    Node old;
    if (!Load(3, &old)) return false;
    const Node one = StepLowering::Number(std::int64_t{1});
    const Node mine = At(Op::kMul, {mean_, Rounded(momentum_)});
    const Node rest = At(Op::kMul, {old, Rounded(1 - momentum_)});
    return s_.Store(At(Op::kAdd, {mine, rest, one}));
  }

  // The same of the variance with the correction of one, contracted.
  bool MoveVariance() {
    Node old;
    if (!Load(4, &old)) return false;
    const Node var =
        At(Op::kDiv, {squares_, StepLowering::Number(elements_ - 1)});
    const Node rest = At(Op::kMul, {old, Rounded(1 - momentum_)});
    return s_.Store(At(Op::kAddcmul, {rest, var, Rounded(momentum_), One()}));
  }

  StepLowering& s_;
  std::int64_t places_ = 1;  // of one channel of one image
  double momentum_ = 0;
  double elements_ = 1;  // of a channel
  Node x_, eps_, count_;
  Node weight_ = One(), bias_ = StepLowering::Number(0.0);
  Node mean_, squares_;  // by channel
};

// Batch norm with given statistics: input * alpha + beta, where
//   alpha = weight / sqrt(variance + eps), beta = bias - mean * alpha
bool WithGivenStatistics(StepLowering& s) {
  Node x, mean, var, eps, weight = One(), bias = StepLowering::Number(0.0);
  if (!s.Into(0) || !s.Tensor(0, &x) || !IsFloat(s, 0)) return false;
  const TensorGeometry& g = s.record().args[0].geometry;
  if (!IsRowMajor(g) && (g.ndim < 4 || !IsChannelsLast(g))) {
    return s.Refuse("reads what does not lie densely");
  }
  if (!Channels(s, 3, x, &mean) || !Channels(s, 4, x, &var) ||
      !s.Scalar(1, &eps) || (IsDefined(s, 1) && !Channels(s, 1, x, &weight)) ||
      (IsDefined(s, 2) && !Channels(s, 2, x, &bias))) {
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
  return IsApart(s) && Training(s).Run();
}

// Tensor arguments of native_batch_norm_backward.
enum Argument : std::size_t {
  kGradient,
  kInput,
  kWeight,
  kRunningMean,
  kRunningVar,
  kSaveMean,
  kSaveInvstd,
};

class Gradients {
 public:
  explicit Gradients(StepLowering& s) : s_(s), is_training_(s.Static(0) != 0) {}

  bool Run() {
    if (!Suits() || !LoadAll()) return false;
    AddUp();
    if (s_.HasResult(0) && !(s_.Into(0) && s_.Store(OfInput()))) return false;
    if (s_.HasResult(1)) {
      if (!s_.Into(1)) return false;
      const Node product =
          At(mean_.dims, Op::kMul, {products_, s_.Convert(invstd_, kSum)});
      if (!s_.Store(s_.Convert(product, x_.dtype))) return false;
    }
    return !s_.HasResult(2) ||
           (s_.Into(2) && s_.Store(s_.Convert(sums_, x_.dtype)));
  }

 private:
  Node At(const Dims& dims, Op op, const std::vector<Node>& nodes) {
    return s_.ApplyAt(dims, op, nodes);
  }

  bool Suits() {
    return HasPlaces(s_, kInput, &places_) &&
           (IsRowMajor(s_.record().args[kGradient].geometry) ||
            s_.Refuse("reads what is not row-major"));
  }

  bool LoadAll() {
    const auto wanted = [&](std::size_t r) { return s_.HasResult(r); };
    const std::size_t first = wanted(0) ? 0 : wanted(1) ? 1 : 2;
    if (!s_.Into(first) || !s_.Tensor(kInput, &x_) ||
        !s_.Tensor(kGradient, &gradient_)) {
      return false;
    }
    if (gradient_.dtype != x_.dtype) {
      return s_.Refuse("has operands of several types");
    }
    FixPlaces(s_, x_.dims);
    ones_ = x_.dims.size() - 2;
    if (IsDefined(s_, kWeight) && !Channels(s_, kWeight, x_, &weight_)) {
      return false;
    }
    if (is_training_) {
      if (!Channels(s_, kSaveMean, x_, &mean_) ||
          !Channels(s_, kSaveInvstd, x_, &invstd_)) {
        return false;
      }
    } else if (!LoadRunning()) {
      return false;
    }
    return true;
  }

  // 1 / sqrt(variance + eps), in f64.
  bool LoadRunning() {
    Node var, eps;
    if (!Channels(s_, kRunningMean, x_, &mean_) ||
        !Channels(s_, kRunningVar, x_, &var) || !s_.Scalar(0, &eps)) {
      return false;
    }
    const Node one = StepLowering::Number(std::int64_t{1});
    const Node sum =
        At(mean_.dims, Op::kAdd, {s_.Convert(var, kSum), eps, one});
    invstd_ = s_.Convert(At(mean_.dims, Op::kRsqrt, {sum}), x_.dtype);
    return true;
  }

  // Of each channel the sum of the gradient, and of its products with the
  // distance from the mean: in each row as eager's vectors do, of rows in f64.
  void AddUp() {
    const Node one = StepLowering::Number(std::int64_t{1});
    const Node x = Flat(x_), gradient = Flat(gradient_);
    const Node distance = At(x.dims, Op::kSub, {x, Wide(mean_, 1), one});
    sums_ = OverBatch(s_.ReduceAt(Op::kSumInTurn, {gradient}, {2}, One()));
    products_ =
        OverBatch(s_.ReduceAt(Op::kDot, {distance, gradient}, {2}, One()));
  }

  // [batch, channels, places], which is how a reduction of rows is known.
  Node Flat(Node node) {
    node.dims.resize(2);
    node.dims.push_back({places_, -1});
    return Lay(s_, node);
  }

  Node OverBatch(Node of_rows) {
    of_rows.dims.resize(2);
    of_rows = Lay(s_, of_rows);
    Node sum =
        s_.ReduceAt(Op::kSumInTurn, {s_.Convert(of_rows, kSum)}, {0}, One());
    sum.dims.erase(sum.dims.begin());
    return Lay(s_, sum);
  }

  //   k = sum of products * invstd^2 / count
  //   (gradient - sum / count - distance * k) * invstd * weight
  Node OfInput() {
    Node y = gradient_;
    if (is_training_) {
      const auto elements = static_cast<double>(x_.dims[0].size * places_);
      const Node count = StepLowering::Number(elements);
      const Node one = StepLowering::Number(std::int64_t{1});
      const Dims& dims = mean_.dims;
      Node k = s_.Convert(products_, x_.dtype);
      k = At(dims, Op::kMul, {k, invstd_});
      k = At(dims, Op::kMul, {k, invstd_});
      k = At(dims, Op::kNeg, {At(dims, Op::kDiv, {k, count})});
      const Node mean =
          s_.Convert(At(dims, Op::kDiv, {sums_, count}), x_.dtype);
      y = s_.Apply(Op::kSub, {gradient_, Wide(mean, ones_), one});
      const Node distance = s_.Apply(Op::kSub, {x_, Wide(mean_, ones_), one});
      y = s_.Apply(Op::kAddcmul, {y, distance, Wide(k, ones_), One()});
    }
    y = s_.Apply(Op::kMul, {y, Wide(invstd_, ones_)});
    return s_.Apply(Op::kMul, {y, Wide(weight_, ones_)});
  }

  StepLowering& s_;
  const bool is_training_;
  std::int64_t places_ = 1;  // of one channel of one image
  std::size_t ones_ = 0;     // dims of places
  Node x_, gradient_;
  Node mean_, invstd_, sums_, products_;  // by channel
  Node weight_ = One();
};

// (gradient, input, weight, running mean, running variance, saved mean, saved
// 1 / sqrt(variance + eps), training, eps, mask)
bool BatchNormBackward(StepLowering& s, const OpRule&) {
  return Gradients(s).Run();
}

constexpr OpRule kRules[] = {
    {"aten::native_batch_norm", "", "", BatchNorm, Op::kAddcmul, ""},
    {"aten::native_batch_norm_backward", "", "", BatchNormBackward,
     Op::kSumInTurn, ""},
};

}  // namespace

absl::Span<const OpRule> BatchNormRules() { return kRules; }

}  // namespace tjit::lower

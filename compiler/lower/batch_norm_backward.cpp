// The gradients of batch norm:
//   of each channel: sums = sum(gradient), products = sum(distance * gradient),
//     in one of eager's two ways (batch_norm.h)
//   of the weight: products * invstd, of the bias: sums, of the input:
//     k = products * invstd^2 / count
//     (gradient - sums / count - distance * k) * invstd * weight
#include <algorithm>
#include <vector>

#include "compiler/lower/batch_norm.h"
#include "compiler/lower/rows.h"

namespace tjit::lower {
namespace {

using ir::Op;

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
    if (layout_.is_by_channels) {
      AddUpRowsOfChannels();
    } else {
      AddUpChannels();
    }
    if (s_.HasResult(0) && !(s_.Into(0) && s_.Store(OfInput()))) return false;
    if (s_.HasResult(1)) {
      if (!s_.Into(1)) return false;
      const Node product =
          At(mean_.dims, Op::kMul,
             {products_, s_.Convert(invstd_, products_.dtype)});
      if (!s_.Store(s_.Convert(product, x_.dtype))) return false;
    }
    return !s_.HasResult(2) ||
           (s_.Into(2) && s_.Store(s_.Convert(sums_, x_.dtype)));
  }

 private:
  Node At(const Dims& dims, Op op, const std::vector<Node>& nodes) {
    return s_.ApplyAt(dims, op, nodes);
  }

  // Where eager takes the gradient for one that lies as the input.
  bool Suits() {
    if (!FindLayout(s_, kInput, &layout_)) return false;
    const TensorGeometry& x = s_.record().args[kInput].geometry;
    const TensorGeometry& g = s_.record().args[kGradient].geometry;
    const bool lies_alike =
        layout_.is_by_channels
            ? std::equal(x.strides, x.strides + x.ndim, g.strides)
            : IsRowMajor(g);
    return lies_alike || s_.Refuse("has a gradient that lies otherwise");
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
    if (layout_.is_by_channels) s_.Fix(x_.dims);  // whole vectors, and the rest
    ones_ = x_.dims.size() - 2;
    if (HasArgument(s_, kWeight) && !LoadChannels(s_, kWeight, x_, &weight_)) {
      return false;
    }
    if (!is_training_) return LoadRunning();
    return LoadChannels(s_, kSaveMean, x_, &mean_) &&
           LoadChannels(s_, kSaveInvstd, x_, &invstd_);
  }

  // 1 / sqrt(variance + eps), in f64.
  bool LoadRunning() {
    Node var, eps;
    if (!LoadChannels(s_, kRunningMean, x_, &mean_) ||
        !LoadChannels(s_, kRunningVar, x_, &var) || !s_.Scalar(0, &eps)) {
      return false;
    }
    const Node one = StepLowering::Number(std::int64_t{1});
    const Node sum =
        At(mean_.dims, Op::kAdd, {s_.Convert(var, kWideSum), eps, one});
    invstd_ = s_.Convert(At(mean_.dims, Op::kRsqrt, {sum}), x_.dtype);
    return true;
  }

  // In each row as eager's vectors do, of rows in f64.
  void AddUpChannels() {
    const Dims dims = {x_.dims[0], x_.dims[1], {layout_.places, -1}};
    const Node x = Reshape(s_, x_, dims);
    const Node gradient = Reshape(s_, gradient_, dims);
    const Node one = StepLowering::Number(std::int64_t{1});
    const Node distance = At(dims, Op::kSub, {x, Wide(mean_, 1), one});
    sums_ = OverBatch(s_.ReduceAt(Op::kSumSequential, {gradient}, {2}, One()));
    products_ =
        OverBatch(s_.ReduceAt(Op::kDot, {distance, gradient}, {2}, One()));
    mean_gradient_ =
        s_.Convert(At(mean_.dims, Op::kDiv, {sums_, Count()}), x_.dtype);
  }
  Node OverBatch(const Node& of_rows) {
    const Node rows = Reshape(s_, of_rows, {x_.dims[0], x_.dims[1]});
    const Node sum = s_.ReduceAt(Op::kSumSequential,
                                 {s_.Convert(rows, kWideSum)}, {0}, One());
    return Reshape(s_, sum, {x_.dims[1]});
  }

  void AddUpRowsOfChannels() {
    const Node x = AsRows(s_, x_, layout_);
    const Node gradient = AsRows(s_, gradient_, layout_);
    const Node sums =
        AddUpRows(s_, layout_, Op::kSumSequential,
                  [&](std::int64_t from, std::int64_t count) {
                    return std::vector<Node>{Slice(gradient, 0, from, count)};
                  });
    const Node products = AddUpRows(
        s_, layout_, Op::kDot, [&](std::int64_t from, std::int64_t count) {
          const Node part = Slice(x, 0, from, count);
          const Node one = StepLowering::Number(std::int64_t{1});
          return std::vector<Node>{At(part.dims, Op::kSub, {part, mean_, one}),
                                   Slice(gradient, 0, from, count)};
        });
    sums_ = s_.Convert(sums, x_.dtype);
    products_ = s_.Convert(products, x_.dtype);
    mean_gradient_ = At(mean_.dims, Op::kDiv, {sums_, Count()});
  }

  Node Count() const {
    return StepLowering::Number(static_cast<double>(layout_.elements));
  }

  // Of channels that fill no vector eager's code for what lies by channels
  // contracts nothing.
  Node OfInput() {
    const Node k = is_training_ ? Slope() : One();
    const std::int64_t lanes = 32 / InfoOf(x_.dtype).bytes;
    const std::int64_t channels = x_.dims[1].size;
    const std::int64_t whole = channels / lanes * lanes;
    if (!is_training_ || !layout_.is_by_channels || whole == channels) {
      return OfElements(k, 0, channels, true);
    }
    if (whole == 0) return OfElements(k, 0, channels, false);
    s_.Fix(s_.target_dims());
    std::vector<std::int64_t> first(x_.dims.size(), 0), rest = first;
    rest[1] = whole;
    return s_.Concat(
        {{OfElements(k, 0, whole, true).operand, first},
         {OfElements(k, whole, channels - whole, false).operand, rest}});
  }

  // -k
  Node Slope() {
    const Dims& dims = mean_.dims;
    Node k = s_.Convert(products_, x_.dtype);
    k = At(dims, Op::kMul, {k, invstd_});
    k = At(dims, Op::kMul, {k, invstd_});
    return At(dims, Op::kNeg, {At(dims, Op::kDiv, {k, Count()})});
  }

  // Of some channels.
  Node OfElements(const Node& k, std::int64_t from, std::int64_t count,
                  bool contracts) {
    const bool is_all = count == x_.dims[1].size;
    const auto part_of = [&](const Node& node) {
      return is_all ? node : Slice(node, 1, from, count);
    };
    const auto wide = [&](const Node& node) {
      return Wide(is_all ? node : Slice(node, 0, from, count), ones_);
    };
    const Node x = part_of(x_), gradient = part_of(gradient_);
    const auto apply = [&](Op op, const std::vector<Node>& nodes) {
      return is_all ? s_.Apply(op, nodes) : At(x.dims, op, nodes);
    };
    Node y = gradient;
    if (is_training_) {
      const Node one = StepLowering::Number(std::int64_t{1});
      y = apply(Op::kSub, {gradient, wide(mean_gradient_), one});
      const Node distance = apply(Op::kSub, {x, wide(mean_), one});
      y = contracts
              ? apply(Op::kAddcmul, {y, distance, wide(k), One()})
              : apply(Op::kAdd, {y, apply(Op::kMul, {distance, wide(k)}), one});
    }
    y = apply(Op::kMul, {y, wide(invstd_)});
    return apply(Op::kMul, {y, wide(weight_)});
  }

  StepLowering& s_;
  const bool is_training_;
  ChannelLayout layout_;
  std::size_t ones_ = 0;  // dims of places
  Node x_, gradient_;
  Node mean_, invstd_, sums_, products_, mean_gradient_;  // by channel
  Node weight_ = One();
};

}  // namespace

bool LowerGradients(StepLowering& s) { return Gradients(s).Run(); }

}  // namespace tjit::lower

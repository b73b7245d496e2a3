// Batch norm that computes statistics:
//   mean and variance of each channel, in one of eager's two ways
//   (batch_norm.h) alpha = weight / sqrt(variance + eps), beta = bias - mean *
//   alpha input * alpha + beta
// and moves those that the program keeps.
//
// Of what is row-major, squares of f64 are added up two places at a time, and
// not contracted; a last one of an odd number is, so that is refused.
#include <utility>
#include <vector>

#include "compiler/lower/batch_norm.h"
#include "compiler/lower/op_rules.h"

namespace tjit::lower {
namespace {

using ir::DType;
using ir::Op;

class Training {
 public:
  explicit Training(StepLowering& s) : s_(s) {}

  bool Run() {
    if (!FindLayout(s_, 0, &layout_) || !LoadAll()) return false;
    if (layout_.is_by_channels) {
      AddUpRowsOfChannels();
    } else {
      AddUpChannels();
    }
    const Node one = StepLowering::Number(std::int64_t{1});
    const Node var = s_.Convert(At(Op::kDiv, {squares_, count_}), kWideSum);
    const Node invstd =
        s_.Convert(At(Op::kRsqrt, {At(Op::kAdd, {var, eps_, one})}), x_.dtype);
    const Node alpha = At(Op::kMul, {invstd, weight_});
    const Node beta =
        At(Op::kAddcmul, {bias_, At(Op::kNeg, {mean_}), alpha, One()});
    const std::size_t ones = x_.dims.size() - 2;
    return s_.Store(s_.Apply(Op::kAddcmul, {Wide(beta, ones), x_,
                                            Wide(alpha, ones), One()})) &&
           s_.Into(1) && s_.Store(mean_) && s_.Into(2) && s_.Store(invstd) &&
           (!HasArgument(s_, 3) || MoveMean()) &&
           (!HasArgument(s_, 4) || MoveVariance());
  }

 private:
  bool IsDouble() const { return x_.dtype == DType::kF64; }

  Node At(Op op, const std::vector<Node>& nodes) {
    return s_.ApplyAt({x_.dims[1]}, op, nodes);
  }

  bool LoadAll() {
    if (!s_.BakedScalar(0, &momentum_)) return s_.Refuse("varies its momentum");
    if (!s_.Into(0) || !s_.Tensor(0, &x_) || !s_.Scalar(1, &eps_) ||
        (HasArgument(s_, 1) && !LoadChannels(s_, 1, x_, &weight_)) ||
        (HasArgument(s_, 2) && !LoadChannels(s_, 2, x_, &bias_))) {
      return false;
    }
    if (IsDouble() && !layout_.is_by_channels && layout_.places % 2 != 0) {
      return s_.Refuse("adds up squares of f64 in rows of an odd length");
    }
    FixPlaces(s_, x_.dims);
    count_ = StepLowering::Number(static_cast<double>(layout_.elements));
    return true;
  }

  // The channels as columns, one element after the other in f64.
  void AddUpChannels() {
    Node x = Reshape(s_, x_, {x_.dims[0], x_.dims[1], {layout_.places, -1}});
    std::swap(x.dims[1], x.dims[2]);
    std::swap(x.operand.access.sizes[1], x.operand.access.sizes[2]);
    std::swap(x.operand.access.strides[1], x.operand.access.strides[2]);
    const auto sum_of = [&](const Node& node) {
      const Node sum = s_.ReduceAt(Op::kSumSequential,
                                   {s_.Convert(node, kWideSum)}, {0, 1}, One());
      return Reshape(s_, sum, {x_.dims[1]});
    };
    mean_ = s_.Convert(At(Op::kDiv, {sum_of(x), count_}), x_.dtype);
    const Node distance = Distance(x);
    squares_ = s_.Convert(
        sum_of(s_.ApplyAt(x.dims, Op::kMul, {distance, distance})), x_.dtype);
  }

  void AddUpRowsOfChannels() {
    const Node x = AsRows(s_, x_, layout_);
    const Node sum =
        AddUpRows(s_, layout_, Op::kSumSequential,
                  [&](std::int64_t from, std::int64_t count) {
                    return std::vector<Node>{Slice(x, 0, from, count)};
                  });
    mean_ = s_.Convert(At(Op::kDiv, {sum, count_}), x_.dtype);
    const Node squares = AddUpRows(
        s_, layout_, Op::kDot, [&](std::int64_t from, std::int64_t count) {
          const Node distance = Distance(Slice(x, 0, from, count));
          return std::vector<Node>{distance, distance};
        });
    squares_ = s_.Convert(squares, x_.dtype);
  }

  Node Distance(const Node& x) {
    const Node one = StepLowering::Number(std::int64_t{1});
    return s_.ApplyAt(x.dims, Op::kSub, {x, mean_, one});
  }

  bool Load(std::size_t arg, Node* old) {
    return s_.IntoArgument(arg) && LoadChannels(s_, arg, x_, old);
  }
  Node Rounded(double number) const {
    return StepLowering::Number(
        IsDouble() ? number : static_cast<double>(static_cast<float>(number)));
  }

  // momentum * mean + (1 - momentum) * what it was
  bool MoveMean() {
    Node old;
    return Load(3, &old) && s_.Store(Moved(mean_, old));
  }
  Node Moved(const Node& now, const Node& old) {
    const Node mine = At(Op::kMul, {now, Rounded(momentum_)});
    const Node rest = At(Op::kMul, {old, Rounded(1 - momentum_)});
    return At(Op::kAdd, {mine, rest, StepLowering::Number(std::int64_t{1})});
  }

  // The same of the variance with the correction of one, of f32 contracted.
  bool MoveVariance() {
    Node old;
    if (!Load(4, &old)) return false;
    const double freedom = static_cast<double>(layout_.elements - 1);
    const Node var = At(Op::kDiv, {squares_, StepLowering::Number(freedom)});
    if (IsDouble()) return s_.Store(Moved(var, old));
    const Node rest = At(Op::kMul, {old, Rounded(1 - momentum_)});
    return s_.Store(At(Op::kAddcmul, {rest, var, Rounded(momentum_), One()}));
  }

  StepLowering& s_;
  ChannelLayout layout_;
  double momentum_ = 0;
  Node x_, eps_, count_;
  Node weight_ = One(), bias_ = StepLowering::Number(0.0);
  Node mean_, squares_;  // by channel
};

}  // namespace

bool LowerTraining(StepLowering& s) { return Training(s).Run(); }

}  // namespace tjit::lower

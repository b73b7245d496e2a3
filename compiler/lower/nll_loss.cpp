// nll_loss of a batch of rows of classes, and its gradient: what a target names
// is picked from its row by its index, so nothing is read but what lies there.
//
// A target that is to be ignored has the index -1 here, which no element has;
// what it leaves to the sums is -0, and that is no element of them.
// Targets out of range throw in eager: steps with such never get here
// (runtime/call/value_checks.h).
// Source: aten/src/ATen/native/LossNLL.cpp of libtorch 2.13.
// Tested by: tests/runtime/against_eager/lower_nll_loss_test.cpp
#include <vector>

#include "compiler/lower/op_rules.h"
#include "compiler/lower/rows.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::DType;
using ir::Op;

enum Reduction : std::uint64_t { kNone = 0, kMean = 1, kSum = 2 };

// To be applied to rows: what there is one of per row.
Node OfRows(Node node) {
  node.dims.push_back(Dim{});
  node.operand.access.sizes.emplace_back(1);
  node.operand.access.strides.emplace_back(0);
  return node;
}

// The same without the dim that a reduction of rows has left.
Node WithoutRow(Node node) {
  node.dims.pop_back();
  node.operand.access.sizes.pop_back();
  node.operand.access.strides.pop_back();
  return node;
}

class NllLoss {
 public:
  // `input`: the argument that has the rows; target and weight are behind it.
  NllLoss(StepLowering& s, std::size_t input) : s_(s), input_(input) {}

 protected:
  // The tensors but for the rows; there are such as are lowered, of so many
  // bytes at most, else refuses.
  bool Load(std::int64_t bytes) {
    const auto& args = s_.record().args;
    dtype_ = s_.target_dtype();
    if (args[input_].geometry->ndim != 2) return s_.Refuse("has no batch");
    if (!IsApart(s_) || !HasRows(s_, input_, {1}, Floats::kWide, bytes) ||
        !s_.Tensor(input_ + 1, &target_)) {
      return false;
    }
    if (target_.dtype != DType::kI64) return s_.Refuse("has targets of bytes");
    has_weight_ = args[input_ + 2].slot != kNoSlot;
    if (has_weight_ && !s_.Tensor(input_ + 2, &weight_)) return false;
    if (has_weight_ && weight_.dtype != dtype_) {
      return s_.Refuse("has operands of several types");
    }
    is_kept_ = s_.ApplyAt(
        target_.dims, Op::kNe,
        {target_,
         StepLowering::Number(static_cast<std::int64_t>(s_.Static(1)))});
    return true;
  }

  std::uint64_t reduction() const { return s_.Static(0); }

  // The index of each row's class, in all elements of the row.
  Node Indices(const Dims& dims) {
    return s_.ApplyAt(dims, Op::kWhere,
                      {OfRows(is_kept_), OfRows(s_.Convert(target_, dtype_)),
                       StepLowering::Number(-1.0)});
  }

  Node At(Op op, const std::vector<Node>& nodes) {
    return s_.ApplyAt(target_.dims, op, nodes);
  }
  // What of the node is kept; else the number.
  Node Kept(const Node& node, double ignored) {
    return At(Op::kWhere, {is_kept_, node, StepLowering::Number(ignored)});
  }

  StepLowering& s_;
  const std::size_t input_;
  DType dtype_ = DType::kF32;
  bool has_weight_ = false;
  Node target_, weight_, is_kept_;
};

// (input, target, weight or none, reduction, class to ignore), to the loss and
// the sum of weights
class Forward : NllLoss {
 public:
  explicit Forward(StepLowering& s) : NllLoss(s, 0) {}

  bool Run() {
    Node x;
    if (!s_.Into(0) || !Load(kMaxLongRowBytes) || !s_.Tensor(0, &x)) {
      return false;
    }
    const Node indices = Indices(x.dims);
    picked_ = Pick(x, indices);
    if (has_weight_) {
      Node rows = weight_;
      rows.dims = x.dims;
      rows.operand =
          ir::Builder::Broadcast(weight_.operand, s_.SizesOf(x.dims));
      weights_ = Pick(rows, indices);
    }
    return reduction() == kNone ? StoreLosses() : StoreSums();
  }

 private:
  Node Pick(const Node& rows, const Node& indices) {
    return WithoutRow(s_.ReduceAt(Op::kPick, {rows, indices}, {1}, {}));
  }

  bool StoreLosses() {
    Node loss = At(Op::kNeg, {picked_});
    if (has_weight_) loss = At(Op::kMul, {loss, weights_});
    if (!s_.Store(Kept(loss, 0))) return false;
    return s_.Into(1) && s_.Store(StepLowering::Number(0.0));
  }

  // 0 - x and x + 0 are never -0.
  bool StoreSums() {
    const Node zero = StepLowering::Number(0.0);
    const Node one = StepLowering::Number(std::int64_t{1});
    Node loss = picked_, weight = StepLowering::Number(1.0);
    if (has_weight_) {
      loss = At(Op::kMul, {picked_, weights_});
      weight = At(Op::kAdd, {weights_, zero, one});
    }
    const Node losses = Kept(At(Op::kSub, {zero, loss, one}), -0.0);
    const Node weights = Kept(weight, -0.0);
    const auto sum_of = [&](const Node& node) {
      return s_.Reduce(Op::kSumInLevels, node, {0}, false);
    };
    const Node sum = sum_of(losses);
    if (reduction() != kMean) {
      return s_.Store(sum) && s_.Into(1) && s_.Store(sum_of(weights));
    }
    const Node total = sum_of(weights);
    return s_.Store(s_.Apply(Op::kDiv, {sum, total})) && s_.Into(1) &&
           s_.Store(total);
  }

  Node picked_, weights_;  // of each row
};

// (gradient, input, target, weight or none, reduction, class to ignore, sum of
// weights); the input's elements are not read.
class Backward : NllLoss {
 public:
  explicit Backward(StepLowering& s) : NllLoss(s, 1) {}

  bool Run() {
    constexpr std::size_t kTotal = 4;
    Node gradient, total;
    if (!s_.Into(0) || !Load(kMaxRowBytes) || !s_.Tensor(0, &gradient)) {
      return false;
    }
    if (gradient.dtype != dtype_) {
      return s_.Refuse("has operands of several types");
    }
    if (reduction() == kMean) {
      if (!s_.Tensor(kTotal, &total)) return false;
      if (total.dtype != dtype_) {
        return s_.Refuse("has operands of several types");
      }
      gradient = At(Op::kDiv, {gradient, total});
    }
    s_.RelateTarget(1);
    Node slope = OfRows(At(Op::kNeg, {gradient}));
    const Node is_index = s_.Apply(
        Op::kNe, {s_.AlongDim(Op::kIsIndex, {Indices(s_.target_dims())}, 1),
                  StepLowering::Number(0.0)});
    if (has_weight_) slope = s_.Apply(Op::kMul, {weight_, slope});
    return s_.Store(
        s_.Apply(Op::kWhere, {is_index, slope, StepLowering::Number(0.0)}));
  }
};

bool LowerForward(StepLowering& s, const OpRule&) { return Forward(s).Run(); }
bool LowerBackward(StepLowering& s, const OpRule&) { return Backward(s).Run(); }

constexpr OpRule kRules[] = {
    {"aten::nll_loss_forward", "", "aten::nll_loss_forward.output",
     LowerForward, Op::kPick, ""},
    {"aten::nll_loss_backward", "", "aten::nll_loss_backward.grad_input",
     LowerBackward, Op::kIsIndex, ""},
};

}  // namespace

absl::Span<const OpRule> NllLossRules() { return kRules; }

}  // namespace tjit::lower

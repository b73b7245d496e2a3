// Group norm and its gradients: statistics of groups by row functions, eager's
// formulas for each element, and the sums over the channels of a group in its
// order.
// Source: aten/src/ATen/native/cpu/group_norm_kernel.cpp. Which products its
// compiler contracted was found by experiment with libtorch 2.13.
#include <utility>
#include <vector>

#include "compiler/lower/norm_nodes.h"
#include "compiler/lower/op_rules.h"
#include "compiler/lower/rows.h"
#include "compiler/lower/step_lowering.h"

namespace tjit::lower {
namespace {

using ir::DType;
using ir::Op;

// The sizes of the call, and tensors as if they had some of them: images,
// groups, channels of a group (or channels), places of a channel.
class Groups {
 public:
  using Sizes = std::vector<std::int64_t>;

  explicit Groups(StepLowering& s)
      : s_(s),
        images_(static_cast<std::int64_t>(s.Static(0))),
        channels_(static_cast<std::int64_t>(s.Static(1))),
        places_(static_cast<std::int64_t>(s.Static(2))),
        groups_(static_cast<std::int64_t>(s.Static(3))),
        width_(groups_ > 0 ? channels_ / groups_ : 0) {}

 protected:
  // Argument `arg` is dense; the input is of floats, and has rows of `row`
  // elements to add up.
  bool HasRowsOf(std::int64_t row, std::size_t arg) {
    const TensorGeometry& g = s_.record().args[arg].geometry;
    if (!IsFloat(g)) {
      return s_.Refuse("computes in another type than f32 and f64");
    }
    if (!IsRowMajor(g)) return s_.Refuse("reads what is not row-major");
    if (images_ < 1 || groups_ < 1 || row < 2) {
      return s_.Refuse("has rows of less than two elements");
    }
    return row <= (16 << 10) / g.itemsize ||
           s_.Refuse("has rows that are long");
  }

  // A dense tensor in the type of the first one.
  bool Load(std::size_t arg, Node* node) {
    if (!s_.Tensor(arg, node)) return false;
    if (!IsRowMajor(s_.record().args[arg].geometry)) {
      return s_.Refuse("reads what is not row-major");
    }
    if (dtype_ == DType::kCount) dtype_ = node->dtype;
    s_.Fix(node->dims);
    return node->dtype == dtype_ || s_.Refuse("has operands of several types");
  }
  bool LoadIfDefined(std::size_t arg, Node* node) {
    return s_.record().args[arg].slot == kNoSlot || Load(arg, node);
  }

  // The same elements, in order. REQUIRES: it lies densely.
  Node As(const Node& node, const Sizes& sizes) {
    return Reshape(s_, node, DimsOf(sizes));
  }
  Node ByGroup(const Node& node) {
    return As(node, {images_, groups_, width_});
  }
  // To be applied to the elements of x: what there is of each channel.
  Node ByChannel(const Node& node, const Node& x) {
    Sizes sizes = {images_, channels_};
    sizes.resize(x.dims.size(), 1);
    return As(node, sizes);
  }
  Node Weight(const Node& weight) { return As(weight, {groups_, width_}); }

  Node At(const Sizes& sizes, Op op, const std::vector<Node>& nodes) {
    return s_.ApplyAt(DimsOf(sizes), op, nodes);
  }
  Node OfGroups(Op op, const std::vector<Node>& nodes) {
    return At({images_, groups_, 1}, op, nodes);
  }
  Node OfChannels(Op op, const std::vector<Node>& nodes) {
    return At({images_, groups_, width_}, op, nodes);
  }
  // What there is of each group, for each channel.
  Node Spread(const Node& of_groups) {
    return OfChannels(Op::kMul, {of_groups, One()});
  }

  StepLowering& s_;
  const std::int64_t images_, channels_, places_, groups_, width_;
  DType dtype_ = DType::kCount;
};

//   scale = weight * rstd, shift = bias - mean * scale
//   input * scale + shift, or (input - mean) * rstd
class Forward : Groups {
 public:
  using Groups::Groups;

  bool Run() {
    if (!HasRowsOf(width_ * places_, 0)) return false;
    Node x, eps, weight = One(), bias = StepLowering::Number(0.0);
    if (!s_.Into(0) || !Load(0, &x) || !s_.Scalar(0, &eps) ||
        !LoadIfDefined(1, &weight) || !LoadIfDefined(2, &bias)) {
      return false;
    }
    const Node rows = As(x, {images_, groups_, width_ * places_});
    const Node mean = s_.ReduceAt(Op::kNormMean, {rows}, {2}, eps);
    const Node rstd = s_.ReduceAt(Op::kNormRstdWide, {rows}, {2}, eps);
    const bool is_affine =
        weight.operand.is_tensor() || bias.operand.is_tensor();
    Node y;
    if (is_affine) {
      const Node scale = OfChannels(Op::kMul, {rstd, Weight(weight)});
      const Node shift = OfChannels(
          Op::kAddcmul,
          {Weight(bias), OfChannels(Op::kNeg, {scale}), mean, One()});
      y = s_.Apply(Op::kAddcmul,
                   {ByChannel(shift, x), x, ByChannel(scale, x), One()});
    } else {
      const Node one = StepLowering::Number(std::int64_t{1});
      y = s_.Apply(Op::kSub, {x, ByChannel(Spread(mean), x), one});
      y = s_.Apply(Op::kMul, {y, ByChannel(Spread(rstd), x)});
    }
    return s_.Store(y) && s_.Into(1) &&
           s_.Store(As(mean, {images_, groups_})) && s_.Into(2) &&
           s_.Store(As(rstd, {images_, groups_}));
  }
};

// (input, weight, bias, images, channels, places, groups, eps), to the result,
// the mean and 1 / sqrt(variance + eps)
bool GroupNorm(StepLowering& s, const OpRule&) { return Forward(s).Run(); }

// Tensor arguments of native_group_norm_backward.
enum Argument : std::size_t { kGradient, kInput, kMean, kRstd, kWeight };

//   of each channel: products = sum(gradient * input), sums = sum(gradient)
//   of each group: p = sum(products * weight), q = sum(sums * weight)
//     b = (q * mean - p) * rstd^3 / n, c = -b * mean - q * rstd / n
//   of the input: rstd * weight * gradient + b * input + c
//   of the weight: sum((products - sums * mean) * rstd), of the bias: sum(sums)
class Backward : Groups {
 public:
  using Groups::Groups;

  bool Run() {
    if (!HasRowsOf(places_, kInput) || !HasRowsOf(places_, kGradient) ||
        !Suits() || !LoadAll()) {
      return false;
    }
    AddUp();
    if (s_.HasResult(0) && !(s_.Into(0) && s_.Store(OfInput()))) return false;
    if (s_.HasResult(1) && !(s_.Into(1) && s_.Store(OfWeight()))) return false;
    return !s_.HasResult(2) ||
           (s_.Into(2) &&
            s_.Store(OverImages(Op::kSumSequential, {ByImage(sums_)})));
  }

 private:
  bool IsDouble() const { return dtype_ == DType::kF64; }
  // Elements of one of eager's vectors.
  std::int64_t Lanes() const { return 32 / InfoOf(dtype_).bytes; }

  bool Suits() {
    if (channels_ < 2) return s_.Refuse("has less than two channels");
    constexpr std::int64_t kMostChannels = 256;  // that the kernel names
    return width_ <= kMostChannels || s_.Refuse("has groups of many channels");
  }

  bool LoadAll() {
    const auto wanted = [&](std::size_t r) { return s_.HasResult(r); };
    if (!s_.Into(wanted(0)   ? 0
                 : wanted(1) ? 1
                             : 2) ||
        !Load(kInput, &x_) || !Load(kGradient, &gradient_) ||
        !Load(kMean, &mean_) || !Load(kRstd, &rstd_) ||
        !LoadIfDefined(kWeight, &weight_)) {
      return false;
    }
    mean_ = As(mean_, {images_, groups_, 1});
    rstd_ = As(rstd_, {images_, groups_, 1});
    weight_ = Weight(weight_);
    const bool depends_on_threads = s_.HasResult(0) &&
                                    weight_.operand.is_tensor() &&
                                    images_ * groups_ > 1 && Rest() > 0;
    return !depends_on_threads || s_.threads() > 0 ||
           s_.Refuse("adds up groups in another way on several threads");
  }

  void AddUp() {
    const Sizes sizes = {images_, channels_, places_};
    const Node x = As(x_, sizes), gradient = As(gradient_, sizes);
    // Of f64 eager contracts what fills no vector.
    products_ =
        ByGroup(IsDouble() ? s_.ReduceAt(Op::kDot, {gradient, x}, {2}, One())
                           : s_.ReduceAt(Op::kSumSequential,
                                         {At(sizes, Op::kMul, {gradient, x})},
                                         {2}, One()));
    sums_ = ByGroup(s_.ReduceAt(Op::kSumSequential, {gradient}, {2}, One()));
  }

  // Of the channels that fill no vector, how many eager's code for one thread
  // adds up without contraction: half a vector, or none.
  std::int64_t Rest() const {
    return width_ % Lanes() >= Lanes() / 2 ? Lanes() / 2 : 0;
  }

  // Some channels of each group.
  static Node Channels(const Node& node, std::int64_t from,
                       std::int64_t count) {
    const std::size_t last = node.dims.empty() ? 0 : node.dims.size() - 1;
    return Slice(node, last, from, count);
  }

  // sum + a * b, in one rounding or two; without a weight b is 1.
  Node Add(const Sizes& sizes, const Node& sum, const Node& a, const Node& b,
           bool contracts) {
    const Node one = StepLowering::Number(std::int64_t{1});
    if (!b.operand.is_tensor()) return At(sizes, Op::kAdd, {a, sum, one});
    if (contracts) return At(sizes, Op::kAddcmul, {sum, a, b, One()});
    return At(sizes, Op::kAdd, {At(sizes, Op::kMul, {a, b}), sum, one});
  }

  // The sum over the channels of each group, times the weight: vector after
  // vector, then the lanes, then the rest.
  Node OverGroup(const Node& of_channels) {
    const std::int64_t lanes = Lanes();
    const std::int64_t vectors = width_ / lanes;
    const bool is_parallel = s_.threads() > 1 && images_ * groups_ > 1;
    const std::int64_t contracted =
        vectors * lanes + (is_parallel ? 0 : Rest());
    Node all = StepLowering::Number(0.0);
    for (std::int64_t v = 0; v < vectors; ++v) {
      all = Add({images_, groups_, lanes}, all,
                Channels(of_channels, v * lanes, lanes),
                Channels(weight_, v * lanes, lanes), true);
    }
    const Sizes single = {images_, groups_, 1};
    Node sum = StepLowering::Number(0.0);
    for (std::int64_t lane = 0; vectors > 0 && lane < lanes; ++lane) {
      sum = Add(single, sum, Channels(all, lane, 1), One(), false);
    }
    for (std::int64_t i = vectors * lanes; i < width_; ++i) {
      sum = Add(single, sum, Channels(of_channels, i, 1),
                Channels(weight_, i, 1), i >= contracted);
    }
    return sum;
  }

  Node OfInput() {
    const Node sum_x = OverGroup(products_), sum = OverGroup(sums_);
    const std::int64_t n = width_ * places_;
    const Node scale = StepLowering::Number(
        IsDouble() ? 1.0 / static_cast<double>(n)
                   : static_cast<double>(1.0F / static_cast<float>(n)));
    Node b = OfGroups(Op::kAddcmul,
                      {OfGroups(Op::kNeg, {sum_x}), sum, mean_, One()});
    for (const Node& factor : {rstd_, rstd_, rstd_, scale}) {
      b = OfGroups(Op::kMul, {b, factor});
    }
    const Node slope = OfGroups(Op::kMul, {OfGroups(Op::kNeg, {b}), mean_});
    const Node shift = OfGroups(Op::kNeg, {OfGroups(Op::kMul, {sum, rstd_})});
    const Node c = OfGroups(Op::kAddcmul, {slope, shift, scale, One()});
    const Node a = OfChannels(Op::kMul, {rstd_, weight_});
    Node y = s_.Apply(Op::kMul, {x_, ByChannel(Spread(b), x_)});
    y = s_.Apply(Op::kAddcmul, {y, gradient_, ByChannel(a, x_), One()});
    return s_.Apply(Op::kAdd, {y, ByChannel(Spread(c), x_),
                               StepLowering::Number(std::int64_t{1})});
  }

  Node OfWeight() {
    const Node minus = OfChannels(Op::kNeg, {sums_});
    const Node distance =
        OfChannels(Op::kAddcmul, {products_, minus, mean_, One()});
    return OverImages(Op::kDot, {ByImage(distance), ByImage(Spread(rstd_))});
  }

  Node ByImage(const Node& node) { return As(node, {images_, channels_}); }
  Node OverImages(Op op, const std::vector<Node>& nodes) {
    return As(s_.ReduceAt(op, nodes, {0}, One()), {channels_});
  }

  Node x_, gradient_;
  Node mean_, rstd_;  // by group
  Node weight_ = One();
  Node products_, sums_;  // by channel
};

// (gradient, input, mean, rstd, weight, images, channels, places, groups, mask)
bool GroupNormBackward(StepLowering& s, const OpRule&) {
  return Backward(s).Run();
}

constexpr OpRule kRules[] = {
    {"aten::native_group_norm", "", "", GroupNorm, Op::kNormMean, ""},
    {"aten::native_group_norm_backward", "", "", GroupNormBackward,
     Op::kSumSequential, ""},
};

}  // namespace

absl::Span<const OpRule> GroupNormRules() { return kRules; }

}  // namespace tjit::lower

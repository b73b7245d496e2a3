// nll_loss and its gradient: lowered, and with eager's bits, whatever is
// ignored, however tensors lie, and for as many rows as eager's sum has levels
// for; the rest is refused.
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/runtime/against_eager/lower_test_inputs.h"
#include "tests/runtime/against_eager/recorded_group.h"

namespace tjit::testing {
namespace {

using at::Tensor;
using c10::IValue;

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble};
constexpr std::int64_t kNoClass = -100;

Tensor Targets(std::int64_t rows, std::int64_t classes) {
  return at::randint(0, classes, {rows}, at::kLong);
}

// Forward and backward with each reduction, in one group.
void ExpectSame(const Tensor& x, const Tensor& target, const IValue& weight,
                std::int64_t ignored, const std::string& what) {
  for (const std::int64_t reduction : {0, 1, 2}) {
    RecordedGroup group;
    const Tensor loss = group.Call("aten::nll_loss_forward",
                                   {x, target, weight, reduction, ignored});
    const Tensor total = group.results()[1];
    const Tensor gradient = group.Call("aten::mul.Tensor", {loss, loss});
    group.Call("aten::nll_loss_backward",
               {gradient, x, target, weight, reduction, ignored, total});
    EXPECT_EQ(group.Compare(), "") << what << ", reduction " << reduction;
  }
}

TEST(LowerNllLossTest, AllSizes) {
  at::manual_seed(1);
  std::uint64_t seed = 1;
  for (const at::ScalarType type : kTypes) {
    for (const std::int64_t classes : {2, 3, 17, 100}) {
      for (const std::int64_t rows : {1, 2, 3, 16, 17, 33, 257, 600}) {
        const Tensor x = NumbersToReduce({rows, classes}, type, ++seed);
        const Tensor weight = NumbersToReduce({classes}, type, ++seed);
        const Tensor target = Targets(rows, classes);
        const std::string what = absl::StrCat(rows, " rows of ", classes);
        ExpectSame(x, target, {}, kNoClass, what);
        ExpectSame(x, target, weight, kNoClass, what + ", weight");
        for (const std::int64_t ignored :
             {std::int64_t{0}, target[0].item<std::int64_t>()}) {
          ExpectSame(x, target, {}, ignored, what + ", ignored");
          ExpectSame(x, target, weight, ignored, what + ", ignored, weight");
        }
      }
    }
  }
}

// Up to the fifth of eager's levels.
TEST(LowerNllLossTest, ManyRows) {
  constexpr std::int64_t kRows = 70001;
  const Tensor x = RoundingInputs({kRows, 2}, at::kFloat, 3);
  ExpectSame(x, Targets(kRows, 2), {}, kNoClass, "many rows");
}

TEST(LowerNllLossTest, AllOrNothingIsIgnored) {
  const Tensor x = RoundingInputs({20, 5}, at::kFloat, 3);
  const Tensor target = at::full({20}, 2, at::kLong);
  ExpectSame(x, target, {}, 2, "all");
  ExpectSame(x, target, x[0].clone(), 2, "all, weight");
  ExpectSame(x, at::full({20}, kNoClass, at::kLong), {}, kNoClass, "no class");
  ExpectSame(at::zeros_like(x), target, {}, kNoClass, "zeros");
  ExpectSame(at::zeros_like(x).neg(), target, at::zeros({5}).neg(), kNoClass,
             "zeros below");
}

TEST(LowerNllLossTest, HoweverTensorsLie) {
  for (const at::ScalarType type : kTypes) {
    const Tensor x = RoundingInputs({30, 20}, type, 4);
    const Tensor all = Targets(60, 20);
    for (const Lay lay : kLays) {
      ExpectSame(Laid(x, lay), all.slice(0, 0, 60, 2), x.t()[0].slice(0, 0, 20),
                 3, "another lay");
    }
    ExpectSame(x, all[3].expand({30}), x[0][0].expand({20}), 3, "expanded");
  }
}

TEST(LowerNllLossTest, ResultsThatTheProgramGives) {
  const Tensor x = RoundingInputs({6, 5}, at::kFloat, 4);
  const Tensor target = Targets(6, 5), total = at::rand({});
  RecordedGroup forward;
  forward.Call(
      "aten::nll_loss_forward.output",
      {x, target, {}, std::int64_t{1}, kNoClass, at::empty({}), at::empty({})});
  EXPECT_EQ(forward.Compare(), "");
  RecordedGroup backward;
  backward.Call("aten::nll_loss_backward.grad_input", {at::rand({}),
                                                       x,
                                                       target,
                                                       {},
                                                       std::int64_t{1},
                                                       kNoClass,
                                                       total,
                                                       at::empty({5, 6}).t()});
  EXPECT_EQ(backward.Compare(), "");
}

// The whole of a cross entropy, to the gradient of the logits.
TEST(LowerNllLossTest, CrossEntropy) {
  for (const at::ScalarType type : kTypes) {
    const Tensor x = at::randn({12, 7}, type), target = Targets(12, 7);
    RecordedGroup group;
    const Tensor y =
        group.Call("aten::_log_softmax", {x, std::int64_t{1}, false});
    const Tensor loss = group.Call("aten::nll_loss_forward",
                                   {y, target, {}, std::int64_t{1}, kNoClass});
    const Tensor total = group.results()[1];
    const Tensor gradient = group.Call(
        "aten::nll_loss_backward",
        {at::ones({}, type), y, target, {}, std::int64_t{1}, kNoClass, total});
    group.Call("aten::_log_softmax_backward_data",
               {gradient, y, std::int64_t{1}, static_cast<std::int64_t>(type)});
    EXPECT_EQ(group.Compare(), "");
  }
}

// As many classes as tokens of a language.
TEST(LowerNllLossTest, ManyClasses) {
  for (const std::int64_t n : {4097, 50257, 65536}) {
    const Tensor x = at::randn({3, n}), target = Targets(3, n);
    RecordedGroup group;
    const Tensor y =
        group.Call("aten::_log_softmax", {x, std::int64_t{1}, false});
    group.Call("aten::nll_loss_forward",
               {y, target, {}, std::int64_t{1}, kNoClass});
    EXPECT_EQ(group.Compare(), "") << n;
  }
  RecordedGroup gradient;
  gradient.Call("aten::nll_loss_backward", {at::ones({}),
                                            at::rand({2, 5000}),
                                            Targets(2, 5000),
                                            {},
                                            std::int64_t{1},
                                            kNoClass,
                                            at::ones({})});
  EXPECT_EQ(gradient.ExpectRefused("rows that are long"), "");
}

TEST(LowerNllLossTest, Refused) {
  const auto refuses = [](const Tensor& x, const Tensor& target,
                          const std::string& why) {
    RecordedGroup group;
    group.Call("aten::nll_loss_forward",
               {x, target, {}, std::int64_t{1}, kNoClass});
    EXPECT_EQ(group.ExpectRefused(why), "");
  };
  refuses(at::rand({5}), Targets(1, 5)[0], "has no batch");
  refuses(at::rand({4, 5}), at::zeros({4}, at::kByte), "has targets of bytes");
  refuses(at::rand({4, 1}), Targets(4, 1), "rows of less than two");
  refuses(at::rand({2, 131073}), Targets(2, 131073), "rows that are long");
  refuses(at::rand({4, 5}).to(at::kBFloat16), Targets(4, 5),
          "another type than f32 and f64");
}

}  // namespace
}  // namespace tjit::testing

// InPlacePairs: over which operands the result of a step may lie.
#include "recorder/in_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recorder/schema_key.h"
#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// op(s0, s1) -> s2, all of 3 x 5.
StepRecord Step(const char* op) {
  StepRecord step;
  step.op = InternOp(op);
  step.args.resize(2);
  step.args[0].slot = 0;
  step.args[0].geometry = F32({3, 5});
  step.args[1].slot = 1;
  step.args[1].geometry = F32({3, 5});
  step.results.resize(1);
  step.results[0].slot = 2;
  step.results[0].geometry = F32({3, 5});
  return step;
}

TEST(InPlace, PointwiseOpsOverOperandsThatLieAlike) {
  EXPECT_THAT(InPlacePairs(Step("aten::add.Tensor")),
              ElementsAre(Pair(2, 0), Pair(2, 1)));
  EXPECT_THAT(InPlacePairs(Step("aten::gelu_backward")),
              ElementsAre(Pair(2, 0), Pair(2, 1)));
  EXPECT_THAT(InPlacePairs(Step("aten::mm")), IsEmpty());
  EXPECT_THAT(InPlacePairs(Step("aten::add_.Tensor")), IsEmpty());
}

// Of complex numbers not where libtorch's roundings depend on it.
TEST(InPlace, ComplexNumbers) {
  constexpr std::uint8_t kDouble = 7, kComplexDouble = 10;
  const auto step_of = [](const char* op, std::uint8_t a, std::uint8_t b) {
    StepRecord step = Step(op);
    step.args[0].geometry.Own().dtype = a;
    step.args[1].geometry.Own().dtype = b;
    step.results[0].geometry.Own().dtype = kComplexDouble;
    return step;
  };
  for (const char* op : {"aten::mul.Tensor", "aten::div.Tensor",
                         "aten::add.Tensor", "aten::tanh_backward"}) {
    EXPECT_THAT(InPlacePairs(step_of(op, kComplexDouble, kComplexDouble)),
                IsEmpty());
  }
  EXPECT_THAT(
      InPlacePairs(step_of("aten::div.Tensor", kComplexDouble, kDouble)),
      IsEmpty());
  EXPECT_THAT(
      InPlacePairs(step_of("aten::mul.Tensor", kComplexDouble, kDouble)),
      ElementsAre(Pair(2, 0)));
  EXPECT_THAT(
      InPlacePairs(step_of("aten::mul.Tensor", kDouble, kComplexDouble)),
      ElementsAre(Pair(2, 1)));
  StepRecord root = step_of("aten::sqrt", kComplexDouble, kComplexDouble);
  root.args.pop_back();
  EXPECT_THAT(InPlacePairs(root), ElementsAre(Pair(2, 0)));
  root.scalars.resize(1);
  for (const char* op : {"aten::mul.Scalar", "aten::div.Scalar"}) {
    root.op = InternOp(op);
    root.scalars[0].value.type = kDouble;
    EXPECT_EQ(InPlacePairs(root).size(), op[6] == 'm' ? 1u : 0u);
    root.scalars[0].value.type = kComplexDouble;
    EXPECT_THAT(InPlacePairs(root), IsEmpty());
  }
}

TEST(InPlace, OperandsThatLieOtherwise) {
  StepRecord step = Step("aten::mul.Tensor");
  step.args[0].geometry.Own().sizes[0] = 1;  // a row for all
  EXPECT_THAT(InPlacePairs(step), ElementsAre(Pair(2, 1)));
  step.args[1].geometry.Own().dtype = 1;
  EXPECT_THAT(InPlacePairs(step), IsEmpty());
  step = Step("aten::mul.Tensor");
  step.args[0].geometry.Own().offset = 4;
  step.args[1].geometry.Own().strides[0] = 6;
  EXPECT_THAT(InPlacePairs(step), IsEmpty());
}

TEST(InPlace, AnOperandThatIsReadInTwoWays) {
  StepRecord step = Step("aten::add.Tensor");
  step.args[1].slot = 0;
  EXPECT_FALSE(InPlacePairs(step).empty()) << "x + x";
  TensorGeometry& transposed = step.args[1].geometry.Own();
  std::swap(transposed.strides[0], transposed.strides[1]);
  EXPECT_THAT(InPlacePairs(step), IsEmpty()) << "x + x.t()";
}

TEST(InPlace, ResultsThatAreNotNew) {
  StepRecord step = Step("aten::add.Tensor");
  step.results[0].kind = ResultRecord::Kind::kAlias;
  EXPECT_THAT(InPlacePairs(step), IsEmpty());
  step = Step("aten::add.Tensor");
  step.args[1].written = true;
  EXPECT_THAT(InPlacePairs(step), ElementsAre(Pair(2, 0)));
}

}  // namespace
}  // namespace tjit

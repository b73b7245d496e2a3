#include <cstdint>
#include <vector>

#include "compiler/ir/size.h"
#include "gtest/gtest.h"

namespace tjit::ir {
namespace {

const Size kN0 = Size::Symbol(0), kN1 = Size::Symbol(1);

TEST(IrSizeTest, PrintsInOneForm) {
  EXPECT_EQ(Size().ToText(), "0");
  EXPECT_EQ(Size(-3).ToText(), "-3");
  EXPECT_EQ((kN1 * 4 * kN0 + kN0 + 3).ToText(), "n0*n1*4+n0+3");
  EXPECT_EQ((Size(3) + kN0 + kN0 * kN1 * 4).ToText(), "n0*n1*4+n0+3");
  EXPECT_EQ((kN0 * -1 + Size(-1)).ToText(), "-n0-1");
  EXPECT_EQ((kN0 * -2 + kN1).ToText(), "-n0*2+n1");
}

TEST(IrSizeTest, EqualPolynomialsAreEqual) {
  EXPECT_EQ((kN0 + 1) * (kN0 + 1), kN0 * kN0 + kN0 * 2 + 1);
  EXPECT_EQ(kN0 + kN1 * -1 + kN1, kN0);
  EXPECT_EQ(kN0 * 0, Size(0));
  EXPECT_FALSE(kN0 == kN1);
  EXPECT_TRUE((kN0 * 0 + 5).is_constant());
  EXPECT_EQ((kN0 * 0 + 5).constant(), 5);
  EXPECT_EQ((kN0 * kN1).max_symbol(), 1);
  EXPECT_EQ(Size(7).max_symbol(), -1);
}

TEST(IrSizeTest, EvaluatesOrSaysNothing) {
  const std::vector<std::int64_t> bound = {3, 5};
  EXPECT_EQ((kN0 * kN1 * 4 + kN0 + 3).Evaluate(bound), 66);
  EXPECT_EQ(Size::Symbol(2).Evaluate(bound), std::nullopt);
  const std::vector<std::int64_t> large = {std::int64_t{1} << 40, 1};
  EXPECT_EQ((kN0 * kN0).Evaluate(large), std::nullopt);
}

TEST(IrSizeTest, WhatIsTooLargeIsInvalid) {
  const Size large = std::int64_t{1} << 62;
  EXPECT_FALSE((large * 4).is_valid());
  EXPECT_FALSE((large + large).is_valid());
  Size power = 1;
  for (std::size_t i = 0; i < Size::kMaxFactors; ++i) power = power * kN0;
  EXPECT_TRUE(power.is_valid());
  EXPECT_FALSE((power * kN0).is_valid());
  Size sum;
  for (int i = 0; i < 40; ++i) sum = sum + Size::Symbol(i);
  EXPECT_EQ(sum, Size::Invalid());
  EXPECT_EQ((sum + 1).Evaluate({}), std::nullopt);
}

TEST(IrSizeTest, ContiguousStridesAreRowMajor) {
  EXPECT_EQ(ToText(ContiguousStrides({kN0, kN1, 4})), "n1*4,4,1");
  EXPECT_EQ(ToText(ContiguousStrides({kN0, 0, 4})), "4,4,1");
  EXPECT_EQ(ToText(ContiguousStrides({})), "");
  EXPECT_EQ(Product({kN0, 4}).ToText(), "n0*4");
}

}  // namespace
}  // namespace tjit::ir

#include "recorder/value_class.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "gtest/gtest.h"

namespace tjit {
namespace {

ScalarValue Double(double v, double imaginary = 0, std::uint64_t type = 7) {
  ScalarValue value;
  value.type = type;
  std::memcpy(&value.bits[0], &v, sizeof(v));
  std::memcpy(&value.bits[1], &imaginary, sizeof(v));
  return value;
}

ScalarValue Complex(double re, double im) { return Double(re, im, 10); }

ScalarValue Long(std::int64_t v) {
  ScalarValue value;
  value.type = 4;
  value.bits[0] = static_cast<std::uint64_t>(v);
  return value;
}

ScalarPolicy Policy(const char* op, int index) {
  return PolicyOf(InternOp(op), index);
}

TEST(ValueClassTest, TableKnowsWhichScalarsMayVary) {
  EXPECT_EQ(Policy("aten::add.Tensor", 0), ScalarPolicy::kFree);
  EXPECT_EQ(Policy("aten::add_.Tensor", 0), ScalarPolicy::kFree);
  EXPECT_EQ(Policy("aten::sub.out", 0), ScalarPolicy::kFree);
  EXPECT_EQ(Policy("aten::addcdiv_", 0), ScalarPolicy::kFree);
  EXPECT_EQ(Policy("aten::clamp", 1), ScalarPolicy::kFree);
  EXPECT_EQ(Policy("aten::elu", 2), ScalarPolicy::kFree);
  EXPECT_EQ(Policy("aten::pow.Tensor_Scalar", 0), ScalarPolicy::kPow);
  EXPECT_EQ(Policy("aten::lerp_.Scalar", 0), ScalarPolicy::kLerp);
  EXPECT_EQ(Policy("aten::addmm", 0), ScalarPolicy::kZeroOne);
  EXPECT_EQ(Policy("aten::addmm", 1), ScalarPolicy::kZeroOne);
  EXPECT_EQ(Policy("aten::fmod.Scalar", 0), ScalarPolicy::kZero);
  EXPECT_EQ(Policy("aten::_fused_adam_", 0), ScalarPolicy::kFree);
  EXPECT_EQ(Policy("aten::_fused_sgd_", 2), ScalarPolicy::kFree);
}

TEST(ValueClassTest, WhatIsNotInTheTableIsBaked) {
  EXPECT_EQ(Policy("aten::relu", 0), ScalarPolicy::kBaked);
  EXPECT_EQ(Policy("aten::native_layer_norm", 0), ScalarPolicy::kBaked);
  EXPECT_EQ(Policy("aten::_fused_adam_", 1), ScalarPolicy::kBaked);
  EXPECT_EQ(Policy("aten::_fused_sgd_", 0), ScalarPolicy::kBaked);
  EXPECT_EQ(Policy("aten::add.Tensor", 1), ScalarPolicy::kBaked);
  EXPECT_EQ(Policy("aten::add.Tensor", -1), ScalarPolicy::kBaked);
  EXPECT_EQ(Policy("aten::add.Tensor", 100), ScalarPolicy::kBaked);
  EXPECT_EQ(PolicyOf(kNoOp, 0), ScalarPolicy::kBaked);
}

TEST(ValueClassTest, OrdinaryFreeScalarsAreOneClass) {
  const std::uint32_t c = ValueClass(ScalarPolicy::kFree, Double(0.001));
  for (const double v : {0.0, -0.0, 1.0, -1.0, 0.9, 1e-300, -100.0, 127.0}) {
    EXPECT_EQ(ValueClass(ScalarPolicy::kFree, Double(v)), c) << v;
  }
}

// The conversion to an element type throws for some values.
TEST(ValueClassTest, ValuesThatDoNotFitATypeAreApart) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::set<std::uint32_t> classes;
  const double values[] = {1,    127.5, 200,   -200,  300,   40000, -40000,
                           60000, 65520, 70000, 3e9,  5e9,   1e19,  1e30,
                           3.395e38, 1e39, -1e39, inf, -inf, nan};
  for (const double v : values) {
    classes.insert(ValueClass(ScalarPolicy::kFree, Double(v)));
  }
  EXPECT_EQ(classes.size(), std::size(values));
  EXPECT_NE(ValueClass(ScalarPolicy::kFree, Long(127)),
            ValueClass(ScalarPolicy::kFree, Long(128)));
  EXPECT_NE(ValueClass(ScalarPolicy::kFree, Long(255)),
            ValueClass(ScalarPolicy::kFree, Long(256)));
}

TEST(ValueClassTest, PowHasAClassForEachFormula) {
  std::set<std::uint32_t> classes;
  for (const double v : {0.5, 2.0, 3.0, -0.5, -1.0, -2.0, 0.0, 1.0, 1.7}) {
    classes.insert(ValueClass(ScalarPolicy::kPow, Double(v)));
  }
  EXPECT_EQ(classes.size(), 9u);
  EXPECT_EQ(ValueClass(ScalarPolicy::kPow, Double(1.7)),
            ValueClass(ScalarPolicy::kPow, Double(-4.25)));
  EXPECT_NE(ValueClass(ScalarPolicy::kPow, Long(5)),
            ValueClass(ScalarPolicy::kPow, Long(-5)));
  EXPECT_EQ(ValueClass(ScalarPolicy::kPow, Long(5)),
            ValueClass(ScalarPolicy::kPow, Long(6)));
}

// BFloat16 rounds 2.001 to 2 before it compares, float does not.
TEST(ValueClassTest, ValuesThatRoundToASpecialOneAreApart) {
  EXPECT_NE(ValueClass(ScalarPolicy::kPow, Double(2.001)),
            ValueClass(ScalarPolicy::kPow, Double(2.1)));
  EXPECT_NE(ValueClass(ScalarPolicy::kPow, Double(2.001)),
            ValueClass(ScalarPolicy::kPow, Double(2)));
  EXPECT_NE(ValueClass(ScalarPolicy::kPow, Double(2 + 1e-12)),
            ValueClass(ScalarPolicy::kPow, Double(2.001)));
  EXPECT_NE(ValueClass(ScalarPolicy::kZero, Double(1e-60)),
            ValueClass(ScalarPolicy::kZero, Double(1)));
  EXPECT_NE(ValueClass(ScalarPolicy::kZero, Double(1e-9)),
            ValueClass(ScalarPolicy::kZero, Double(1)));
  EXPECT_EQ(ValueClass(ScalarPolicy::kZero, Double(1e-3)),
            ValueClass(ScalarPolicy::kZero, Double(1)));
}

float ToBFloat16(double v) {
  const auto f = static_cast<float>(v);
  std::uint32_t bits;
  std::memcpy(&bits, &f, sizeof(f));
  bits += 0x7FFF + (bits >> 16 & 1);
  bits &= 0xFFFF0000;
  float rounded;
  std::memcpy(&rounded, &bits, sizeof(f));
  return rounded;
}

// A value has the class of no special one exactly if no type rounds it to one.
TEST(ValueClassTest, NeighboursOfSpecialValues) {
  const std::uint32_t other = ValueClass(ScalarPolicy::kPow, Double(1.7));
  for (const double special : {0.5, 2.0, 3.0, -0.5, -1.0, -2.0, 1.0}) {
    for (int i = -400; i <= 400; ++i) {
      const double v = special * (1 + i * 0x1p-14);
      EXPECT_EQ(ValueClass(ScalarPolicy::kPow, Double(v)) == other,
                ToBFloat16(v) != special)
          << v;
    }
  }
}

TEST(ValueClassTest, BetaOfAProduct) {
  const auto c = [](double v) {
    return ValueClass(ScalarPolicy::kZeroOne, Double(v));
  };
  EXPECT_EQ(c(0.0), c(-0.0));
  EXPECT_EQ(c(0.25), c(-0.75));
  EXPECT_NE(c(0), c(1));
  EXPECT_NE(c(0), c(0.5));
  EXPECT_NE(c(1), c(0.5));
  EXPECT_NE(ValueClass(ScalarPolicy::kZeroOne, Long(0)),
            ValueClass(ScalarPolicy::kZeroOne, Long(1)));
}

TEST(ValueClassTest, LerpChoosesItsFormulaAtOneHalf) {
  const auto c = [](double v) {
    return ValueClass(ScalarPolicy::kLerp, Double(v));
  };
  EXPECT_EQ(c(0.1), c(-0.499));
  EXPECT_EQ(c(0.5), c(0.9));
  EXPECT_NE(c(0.1), c(0.9));
  // Less than a half in double, a half in float.
  const double edge = std::nextafter(0.5, 0);
  EXPECT_NE(c(edge), c(0.1));
  EXPECT_NE(c(edge), c(0.9));
}

TEST(ValueClassTest, ImaginaryPartsAreApart) {
  EXPECT_NE(ValueClass(ScalarPolicy::kFree, Complex(1, 0)),
            ValueClass(ScalarPolicy::kFree, Complex(1, 1)));
  EXPECT_EQ(ValueClass(ScalarPolicy::kFree, Complex(1, 2)),
            ValueClass(ScalarPolicy::kFree, Complex(3, -1)));
  EXPECT_NE(ValueClass(ScalarPolicy::kPow, Complex(2, 0)),
            ValueClass(ScalarPolicy::kPow, Complex(2, 1)));
  EXPECT_NE(ValueClass(ScalarPolicy::kLerp, Complex(0.4, 0.1)),
            ValueClass(ScalarPolicy::kLerp, Complex(0.4, 0.9)));
}

TEST(ValueClassTest, BakedScalarsNeedNoClass) {
  EXPECT_EQ(ValueClass(ScalarPolicy::kBaked, Double(1)),
            ValueClass(ScalarPolicy::kBaked, Double(1e300)));
}

}  // namespace
}  // namespace tjit

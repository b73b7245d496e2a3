#include <cmath>
#include <cstdint>
#include <limits>

#include "compiler/ir/dtype.h"
#include "gtest/gtest.h"

namespace tjit::ir {
namespace {

TEST(IrDtypeTest, NamesAndNumbersLeadBack) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    DType back = DType::kCount;
    EXPECT_TRUE(DTypeByName(Name(dtype), &back));
    EXPECT_EQ(back, dtype);
    EXPECT_TRUE(DTypeByNumber(InfoOf(dtype).number, &back));
    EXPECT_EQ(back, dtype);
  }
  DType none;
  EXPECT_FALSE(DTypeByName("f33", &none));
  EXPECT_FALSE(DTypeByNumber(9, &none));
}

// The nearest of all f16 numbers, by search; ties to even.
std::uint16_t NearestHalf(float value) {
  std::uint16_t best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (std::uint32_t bits = 0; bits <= 0x7c00; ++bits) {
    // Infinity stands where the next number would be.
    const double number =
        bits == 0x7c00 ? 65536 : HalfToFloat(static_cast<std::uint16_t>(bits));
    const double d = std::fabs(std::fabs(static_cast<double>(value)) - number);
    if (d < distance || (d == distance && bits % 2 == 0)) {
      distance = d;
      best = static_cast<std::uint16_t>(bits);
    }
  }
  return static_cast<std::uint16_t>(best | (std::signbit(value) ? 0x8000 : 0));
}

TEST(IrDtypeTest, HalfRoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if ((bits & 0x7fff) > 0x7c00) continue;  // NaN
    EXPECT_EQ(FloatToHalf(HalfToFloat(half)), half);
  }
  const float samples[] = {1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 65519.0f,
                           65520.0f,        0x1p-24f,        0x1p-25f,
                           0x1.8p-25f,      0x1.ffcp-15f,    -0x1.ffep-15f,
                           -3.14159f,       0x1.ffffp-15f,   -0.0f,
                           0x1.002p-14f,    0x1.555554p-20f, 1e30f};
  for (const float sample : samples) {
    EXPECT_EQ(FloatToHalf(sample),
              std::fabs(sample) > 65536 ? 0x7c00 : NearestHalf(sample))
        << sample;
  }
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(NAN))));
  EXPECT_EQ(HalfToFloat(0x7c00), std::numeric_limits<float>::infinity());
}

TEST(IrDtypeTest, BFloat16RoundsToNearestEven) {
  EXPECT_EQ(FloatToBFloat16(1.0f), 0x3f80);
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x3p-8f), 0x3f82);
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x1.002p-8f), 0x3f81);
  EXPECT_EQ(FloatToBFloat16(3.4e38f), 0x7f80);
  EXPECT_EQ(FloatToBFloat16(NAN), 0x7fc0);
  EXPECT_EQ(BFloat16ToFloat(0xc000), -2.0f);
}

template <class T>
std::int64_t Stored(DType dtype, T value) {
  char bytes[8] = {};
  Store(dtype, value, bytes);
  return Load<std::int64_t>(dtype, bytes);
}

// What libtorch 2.13 gives on x86.
TEST(IrDtypeTest, OutOfRangeConvertsAsInEager) {
  EXPECT_EQ(Stored(DType::kI8, 1e10f), 0);
  EXPECT_EQ(Stored(DType::kI8, -3.9f), -3);
  EXPECT_EQ(Stored(DType::kI8, 300.f), 44);
  EXPECT_EQ(Stored(DType::kI32, 1e10f), INT32_MIN);
  EXPECT_EQ(Stored(DType::kI32, NAN), INT32_MIN);
  EXPECT_EQ(Stored(DType::kI32, -2147483648.0), INT32_MIN);
  EXPECT_EQ(Stored(DType::kI32, 2147483647.0), INT32_MAX);
  EXPECT_EQ(Stored(DType::kI64, 1e19f), INT64_MIN);
  EXPECT_EQ(Stored(DType::kU8, std::int64_t{260}), 4);
  EXPECT_EQ(Stored(DType::kU8, 5000000000260.0), 4);
  EXPECT_EQ(Stored(DType::kU8, -5000000000260.0), 252);
  EXPECT_EQ(Stored(DType::kU8, 1e19), 0);
  EXPECT_EQ(Stored(DType::kI8, 5000000000260.0), 0);
  EXPECT_EQ(Stored(DType::kI16, 5000000000260.0), 0);
  EXPECT_EQ(Stored(DType::kBool, 0.25f), 1);
  EXPECT_EQ(Stored(DType::kBool, NAN), 1);
}

}  // namespace
}  // namespace tjit::ir

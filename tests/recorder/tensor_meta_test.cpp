#include "recorder/tensor_meta.h"

#include "gtest/gtest.h"
#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

TEST(TensorMetaTest, LayoutClasses) {
  EXPECT_EQ(LayoutOf(F32({})), LayoutClass::kContiguous);
  EXPECT_EQ(LayoutOf(F32({4, 8})), LayoutClass::kContiguous);
  EXPECT_EQ(LayoutOf(WithStrides(F32({8, 4}), {1, 8})),
            LayoutClass::kTransposed);
  EXPECT_EQ(LayoutOf(WithStrides(F32({3, 8, 4}), {32, 1, 8})),
            LayoutClass::kTransposed);
  EXPECT_EQ(LayoutOf(WithStrides(F32({2, 3, 5, 7}), {105, 1, 21, 3})),
            LayoutClass::kChannelsLast);
  EXPECT_EQ(LayoutOf(WithStrides(F32({2, 3, 2, 5, 7}), {210, 1, 105, 21, 3})),
            LayoutClass::kChannelsLast);
  EXPECT_EQ(LayoutOf(WithStrides(F32({4, 8}), {16, 1})), LayoutClass::kStrided);
  EXPECT_EQ(LayoutOf(WithStrides(F32({4}), {2})), LayoutClass::kStrided);
  EXPECT_EQ(LayoutOf(WithStrides(F32({4, 8}), {0, 1})),
            LayoutClass::kBroadcast);
  EXPECT_EQ(LayoutOf(F32({4, 0})), LayoutClass::kEmpty);
  EXPECT_EQ(LayoutOf(WithStrides(F32({4, 0}), {0, 1})), LayoutClass::kEmpty);
}

TEST(TensorMetaTest, StridesOfDimsOfSizeOneDoNotMatter) {
  EXPECT_EQ(LayoutOf(WithStrides(F32({1, 8}), {99, 1})),
            LayoutClass::kContiguous);
  EXPECT_EQ(LayoutOf(WithStrides(F32({8, 1}), {1, 0})),
            LayoutClass::kContiguous);
  EXPECT_EQ(LayoutOf(WithStrides(F32({2, 1, 5, 7}), {35, 1, 7, 1})),
            LayoutClass::kContiguous);
}

TEST(TensorMetaTest, OffsetIsNoMatterOfLayout) {
  EXPECT_EQ(LayoutOf(WithStrides(F32({4, 8}), {8, 1}, 100)),
            LayoutClass::kContiguous);
}

TEST(TensorMetaTest, EachLayoutHasAName) {
  EXPECT_STREQ(LayoutName(LayoutClass::kContiguous), "contiguous");
  EXPECT_STREQ(LayoutName(LayoutClass::kEmpty), "empty");
  EXPECT_STREQ(LayoutName(static_cast<LayoutClass>(99)), "?");
}

TEST(TensorMetaTest, GeometriesCompareAllFields) {
  const TensorGeometry g = F32({4, 8});
  EXPECT_EQ(g, F32({4, 8}));
  EXPECT_EQ(g.numel(), 32);
  EXPECT_EQ(F32({}).numel(), 1);
  TensorGeometry other = g;
  other.key_set++;
  EXPECT_FALSE(g == other);
  other = g;
  other.wrapped_number = true;
  EXPECT_FALSE(g == other);
}

}  // namespace
}  // namespace tjit

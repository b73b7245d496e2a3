#include "recorder/shared_geometry.h"

#include <gtest/gtest.h>

#include "recorder/geometry_pool.h"
#include "recorder/op_record.h"

namespace tjit {
namespace {

TensorGeometry Row(std::int64_t size) {
  TensorGeometry g;
  g.ndim = 1;
  g.sizes[0] = size;
  g.strides[0] = 1;
  return g;
}

TEST(SharedGeometry, IsAllZeroWithoutOne) {
  const SharedGeometry none;
  EXPECT_EQ(none, TensorGeometry());
  EXPECT_EQ(none, SharedGeometry(TensorGeometry()));
  EXPECT_EQ(none->ndim, 0);
}

TEST(SharedGeometry, CopiesShareAndAWriteParts) {
  const SharedGeometry first = Row(3);
  SharedGeometry second = first;
  EXPECT_TRUE(first.IsSameObject(second));
  second.Own().sizes[0] = 4;
  EXPECT_FALSE(first.IsSameObject(second));
  EXPECT_EQ(first, Row(3));
  EXPECT_EQ(second, Row(4));
}

TEST(SharedGeometry, IsAPointerInARecord) {
  EXPECT_LE(sizeof(ArgRecord), 24u);
  StepRecord step;
  step.args.push_back({0, false, Row(5)});
  EXPECT_TRUE(
      CopyOf(step).args[0].geometry.IsSameObject(step.args[0].geometry));
}

TEST(GeometryPool, GivesEqualOnesOneObject) {
  GeometryPool pool;
  const SharedGeometry first = pool.Share(Row(3));
  EXPECT_TRUE(first.IsSameObject(pool.Share(Row(3))));
  EXPECT_FALSE(first.IsSameObject(pool.Share(Row(4))));
  TensorGeometry strided = Row(3);
  strided.strides[0] = 2;
  EXPECT_EQ(pool.Share(strided), strided);
}

TEST(GeometryPool, ForgetsAndStaysRight) {
  GeometryPool pool;
  const SharedGeometry first = pool.Share(Row(0));
  for (std::int64_t i = 0; i < 5000; ++i) {
    EXPECT_EQ(pool.Share(Row(i)), Row(i));
  }
  EXPECT_EQ(first, Row(0));
  EXPECT_EQ(pool.Share(Row(0)), first);
}

}  // namespace
}  // namespace tjit

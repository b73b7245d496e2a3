#include "recorder/shared_geometry.h"

#include <gtest/gtest.h>

#include "recorder/geometry_pool.h"
#include "recorder/op_record.h"
#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

TEST(SharedGeometry, IsAllZeroWithoutOne) {
  const SharedGeometry none;
  EXPECT_EQ(none, TensorGeometry());
  EXPECT_EQ(none, SharedGeometry(TensorGeometry()));
  EXPECT_EQ(none->ndim, 0);
}

TEST(SharedGeometry, CopiesShareAndAWriteParts) {
  const SharedGeometry first = F32({3});
  SharedGeometry second = first;
  EXPECT_TRUE(first.IsSameObject(second));
  second.Own().sizes[0] = 4;
  EXPECT_FALSE(first.IsSameObject(second));
  EXPECT_EQ(first, F32({3}));
  EXPECT_EQ(second, F32({4}));
}

TEST(SharedGeometry, IsAPointerInARecord) {
  EXPECT_LE(sizeof(ArgRecord), 24u);
  StepRecord step;
  step.args.push_back({0, false, F32({5})});
  EXPECT_TRUE(
      CopyOf(step).args[0].geometry.IsSameObject(step.args[0].geometry));
}

TEST(GeometryPool, GivesEqualOnesOneObject) {
  GeometryPool pool;
  const SharedGeometry first = pool.Share(F32({3}));
  EXPECT_TRUE(first.IsSameObject(pool.Share(F32({3}))));
  EXPECT_FALSE(first.IsSameObject(pool.Share(F32({4}))));
  TensorGeometry strided = F32({3});
  strided.strides[0] = 2;
  EXPECT_EQ(pool.Share(strided), strided);
}

TEST(GeometryPool, ForgetsAndStaysRight) {
  GeometryPool pool;
  const SharedGeometry first = pool.Share(F32({0}));
  for (std::int64_t i = 0; i < 5000; ++i) {
    EXPECT_EQ(pool.Share(F32({i})), F32({i}));
  }
  EXPECT_EQ(first, F32({0}));
  EXPECT_EQ(pool.Share(F32({0})), first);
}

}  // namespace
}  // namespace tjit

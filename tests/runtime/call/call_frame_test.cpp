#include "runtime/call/call_frame.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "runtime/library_calls/library_call.h"

namespace tjit::runtime {
namespace {

TEST(FrameArrayTest, GrowsPastItsPlace) {
  FrameArray<std::uint64_t, 4> array;
  std::vector<std::uint64_t> wanted(100);
  std::iota(wanted.begin(), wanted.end(), 7);
  for (const std::uint64_t v : wanted) array.push_back(v);
  ASSERT_EQ(array.size(), 100u);
  EXPECT_EQ(std::vector<std::uint64_t>(array.begin(), array.end()), wanted);
  array.clear();
  EXPECT_TRUE(array.empty());
  array.push_back(5);
  EXPECT_EQ(array[0], 5u);
}

class FreshResultsTest : public testing::Test {
 protected:
  at::Tensor Made() {
    made_.push_back(at::empty({2}));
    return made_.back();
  }
  // How many somebody else than this test holds.
  std::size_t Held() const {
    std::size_t held = 0;
    for (const at::Tensor& t : made_) held += t.use_count() - 1;
    return held;
  }
  std::vector<at::Tensor> made_;
};

TEST_F(FreshResultsTest, TakesTheOnlyOne) {
  FreshResults results;
  results.Add(Made());
  EXPECT_EQ(results[0], made_[0].unsafeGetTensorImpl());
  {
    const at::Tensor taken = results.ReleaseOnly();
    EXPECT_TRUE(taken.is_same(made_[0]));
    EXPECT_EQ(results.size(), 0u);
    EXPECT_EQ(Held(), 1u);
  }
  EXPECT_EQ(Held(), 0u);
}

TEST_F(FreshResultsTest, TakesEach) {
  FreshResults results;
  results.Add(Made());
  results.Add(at::Tensor());
  results.AddOwned(Made().unsafeReleaseTensorImpl());
  EXPECT_EQ(results[1], nullptr);
  EXPECT_TRUE(results.Release(2).is_same(made_[1]));
  EXPECT_FALSE(results.Release(1).defined());
  EXPECT_EQ(results[2], nullptr);
  EXPECT_EQ(Held(), 1u);
  EXPECT_TRUE(results.Release(0).is_same(made_[0]));
  EXPECT_EQ(Held(), 0u);
}

TEST_F(FreshResultsTest, DropsWhatNobodyTook) {
  {
    FreshResults results;
    for (int i = 0; i < 9; ++i) results.Add(Made());
    results.Release(3);
    EXPECT_EQ(Held(), 8u);
  }
  EXPECT_EQ(Held(), 0u);
  FreshResults cleared;
  cleared.Add(Made());
  cleared.clear();
  EXPECT_EQ(cleared.size(), 0u);
  EXPECT_EQ(Held(), 0u);
}

// The two that are told by their first word, and all that are not.
TEST(CallFrameTest, ScalarsAreEncodedAsElsewhere) {
  EXPECT_NE(g_scalar_layout.double_tag, ScalarLayout::kNone);
  const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Scalar");
  const OpEntry entry(op);
  const std::vector<at::Scalar> scalars = {0.0,
                                           -0.0,
                                           -1.5,
                                           1e308,
                                           std::nan(""),
                                           std::int64_t{0},
                                           std::int64_t{-7},
                                           std::int64_t{1} << 62,

                                           true,
                                           false,
                                           c10::complex<double>(1, -2),
                                           c10::complex<double>(0, 0)};
  for (const at::Scalar& s : scalars) {
    CallFrame frame(entry, {});
    frame.AddScalar(s);
    ASSERT_EQ(frame.scalars.size(), 1u);
    ScalarValue wanted;
    EncodeScalar(s, &wanted);
    EXPECT_TRUE(frame.scalars[0].SameBits(wanted)) << s;
    EXPECT_TRUE(frame.recordable);
  }
}

}  // namespace
}  // namespace tjit::runtime

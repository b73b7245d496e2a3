#include "runtime/call_frame.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

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
    const at::Tensor taken = results.TakeOnly();
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
  EXPECT_TRUE(results.Take(2).is_same(made_[1]));
  EXPECT_FALSE(results.Take(1).defined());
  EXPECT_EQ(results[2], nullptr);
  EXPECT_EQ(Held(), 1u);
  EXPECT_TRUE(results.Take(0).is_same(made_[0]));
  EXPECT_EQ(Held(), 0u);
}

TEST_F(FreshResultsTest, DropsWhatNobodyTook) {
  {
    FreshResults results;
    for (int i = 0; i < 9; ++i) results.Add(Made());
    results.Take(3);
    EXPECT_EQ(Held(), 8u);
  }
  EXPECT_EQ(Held(), 0u);
  FreshResults cleared;
  cleared.Add(Made());
  cleared.clear();
  EXPECT_EQ(cleared.size(), 0u);
  EXPECT_EQ(Held(), 0u);
}

}  // namespace
}  // namespace tjit::runtime

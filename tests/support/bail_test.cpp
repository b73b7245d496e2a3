#include "support/bail.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "support/counters.h"

namespace tjit {
namespace {

TEST(BailTest, ReasonsHaveNamesTextsAndExpectedness) {
  EXPECT_STREQ(BailName(BailReason::kOpDiffers), "op_differs");
  EXPECT_STREQ(BailText(BailReason::kOpDiffers), "another op was called");
  EXPECT_TRUE(IsExpected(BailReason::kOpDiffers));
  EXPECT_FALSE(IsExpected(BailReason::kStepThrew));
  EXPECT_STREQ(FlushName(FlushReason::kItem), "item");
  EXPECT_STREQ(FlushText(FlushReason::kMarkStep), "tjit::mark_step()");
}

TEST(BailTest, NamesAreDifferent) {
  std::set<std::string> names;
  const int bails = static_cast<int>(BailReason::kCount);
  const int flushes = static_cast<int>(FlushReason::kCount);
  for (int i = 0; i < bails; ++i) {
    names.insert(BailName(static_cast<BailReason>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(bails));
  for (int i = 0; i < bails; ++i) {
    EXPECT_GT(std::string(BailRemedy(static_cast<BailReason>(i))).size(), 20u)
        << BailName(static_cast<BailReason>(i));
  }
  names.clear();
  for (int i = 0; i < flushes; ++i) {
    names.insert(FlushName(static_cast<FlushReason>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(flushes));
}

TEST(BailTest, OutOfRangeIsAQuestionMark) {
  EXPECT_STREQ(BailName(BailReason::kCount), "?");
  EXPECT_STREQ(BailText(static_cast<BailReason>(255)), "?");
  EXPECT_STREQ(BailRemedy(static_cast<BailReason>(255)), "?");
  EXPECT_FALSE(IsExpected(static_cast<BailReason>(255)));
  EXPECT_STREQ(FlushName(FlushReason::kCount), "?");
}

TEST(CounterTest, AddAndMax) {
  Counter counter;
  counter.Add();
  counter.Add(4);
  EXPECT_EQ(counter.value(), 5);
  counter.Max(3);
  EXPECT_EQ(counter.value(), 5);
  counter.Max(9);
  EXPECT_EQ(counter.value(), 9);
}

}  // namespace
}  // namespace tjit

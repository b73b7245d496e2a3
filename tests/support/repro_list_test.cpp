// The values of TJIT_REPRO: what each word of a list stands for, and what is
// none.
#include "support/repro_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tjit {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ReproListTest, WordsAndNames) {
  ReproList list;
  ASSERT_TRUE(ParseReproList("all", &list));
  EXPECT_TRUE(list.all && !list.slow);
  EXPECT_THAT(list.names, IsEmpty());
  ASSERT_TRUE(ParseReproList("0a,slow,566f0d7d4c59", &list));
  EXPECT_TRUE(!list.all && list.slow);
  EXPECT_THAT(list.names, ElementsAre("0a", "566f0d7d4c59"));
  EXPECT_TRUE(list.HasName("0a0000000001"));
  EXPECT_TRUE(list.HasName("566f0d7d4c59"));
  EXPECT_FALSE(list.HasName("566f0d7d4c58"));
  EXPECT_FALSE(list.HasName("00a000000001"));
}

TEST(ReproListTest, WhatIsNoneLeavesTheListAsItIs) {
  ReproList list;
  ASSERT_TRUE(ParseReproList("slow", &list));
  for (const char* value : {"", ",", "all,", "All", "none", "12g", " all",
                            "0123456789abc", "566F0D7D4C59", "all slow"}) {
    EXPECT_FALSE(ParseReproList(value, &list)) << value;
    EXPECT_TRUE(list.slow) << value;
  }
}

}  // namespace
}  // namespace tjit

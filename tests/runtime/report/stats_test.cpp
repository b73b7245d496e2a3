// tjit::Stats as a value: arithmetic and text also of one that nobody filled.
#include "tjit/stats.h"

#include <string>
#include <unordered_map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "recorder/explanation.h"
#include "recorder/no_stats.h"
#include "support/output_file.h"

namespace tjit {
namespace {

using ::testing::HasSubstr;

// One with reasons, whatever this process did.
Stats Filled() {
  Stats s = stats();
  EXPECT_FALSE(s.flushes.empty());
  EXPECT_FALSE(s.side_exits.empty());
  s.ops_seen = 7;
  s.memory_peak_bytes = 4096;
  s.flushes.back() = 3;
  s.side_exits.front() = 2;
  s.segment_length[1] = 5;
  s.segment_ops[1] = 10;
  return s;
}

TEST(StatsTest, NothingMinusNothing) {
  const Stats d = Stats() - Stats();
  EXPECT_EQ(d.ops_seen, 0);
  EXPECT_TRUE(d.flushes.empty() && d.side_exits.empty());
}

TEST(StatsTest, WhatWasCollectedMinusNothingIsItself) {
  const Stats s = Filled();
  const Stats d = s - Stats();
  EXPECT_EQ(d.ops_seen, 7);
  EXPECT_EQ(d.memory_peak_bytes, 4096);
  EXPECT_EQ(d.flushes, s.flushes);
  EXPECT_EQ(d.side_exits, s.side_exits);
  EXPECT_EQ(d.segment_ops, s.segment_ops);
}

TEST(StatsTest, NothingMinusWhatWasCollectedIsItsNegative) {
  const Stats s = Filled();
  const Stats d = Stats() - s;
  EXPECT_EQ(d.ops_seen, -7);
  ASSERT_EQ(d.flushes.size(), s.flushes.size());
  EXPECT_EQ(d.flushes.back(), -3);
  ASSERT_EQ(d.side_exits.size(), s.side_exits.size());
  EXPECT_EQ(d.side_exits.front(), -2);
  EXPECT_EQ(d.flush_count(), -s.flush_count());
  EXPECT_EQ(d.segment_length[1], -5);
}

TEST(StatsTest, AnEntryThatAMapMakesIsASubtrahendLikeAnyOther) {
  std::unordered_map<std::string, Stats> before;
  const Stats now = Filled();
  EXPECT_EQ((now - before["training"]).flushes, now.flushes);
  EXPECT_EQ((before["inference"] - now).ops_seen, -7);
}

TEST(StatsTest, NothingHasZerosEverywhere) {
  const Stats none;
  EXPECT_EQ(none.flush_count(), 0);
  EXPECT_EQ(none.flush_count("item"), 0);
  EXPECT_EQ(none.side_exit_count("shape_changed"), 0);
  EXPECT_EQ(none.median_segment_length(), 0);
  EXPECT_EQ(none.mean_queue_length(), 0);
  EXPECT_THAT(none.to_json(), HasSubstr("\"flushes\": {}"));
}

// What `tjit run` writes before the program starts has the fields of what
// libtjit writes at its end.
TEST(StatsTest, AFileWithoutOpsHasEveryField) {
  Explanation explanation;
  explanation.why = "the \"program\" never loaded libtorch";
  EXPECT_EQ(StatsWithoutOps(explanation.why),
            WithLists(Stats().to_json(), explanation));
  EXPECT_TRUE(StatsWithoutOps("").starts_with(kStatsFile.beginning));
}

}  // namespace
}  // namespace tjit

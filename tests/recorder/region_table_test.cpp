// Names of regions as numbers: nested, bounded, the same in every process, and
// known to many threads at once.
#include "recorder/region_table.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tjit {
namespace {

TEST(RegionTableTest, NamesNest) {
  const auto table = std::make_unique<RegionTable>();
  EXPECT_EQ(table->FindInside(kNoRegion, "solve"), kNoRegion);
  const RegionId solve = table->Enter(kNoRegion, "solve");
  const RegionId newton = table->Enter(solve, "newton");
  EXPECT_NE(solve, newton);
  EXPECT_EQ(table->NameOf(newton), "solve/newton");
  EXPECT_EQ(table->Enter(kNoRegion, "solve/newton"), newton);
  EXPECT_EQ(table->FindInside(kNoRegion, "solve/newton"), newton);
  EXPECT_EQ(table->FindInside(solve, "newton"), newton);
  EXPECT_EQ(table->FindInside(kNoRegion, "newton"), kNoRegion);
  EXPECT_EQ(table->FindInside(kNoRegion, "solve/"), kNoRegion);
  EXPECT_EQ(table->FindInside(kNoRegion, ""), kNoRegion);
  EXPECT_NE(table->Enter(newton, "newton"), newton);
  EXPECT_EQ(table->NameOf(kNoRegion), "");
}

TEST(RegionTableTest, WhatIsNoName) {
  EXPECT_EQ(RegionTable::WhyNoName("a b/c.d"), "");
  for (const char* name : {"", "/", "/a", "a/", "a//b", "a*", "?b"}) {
    EXPECT_NE(RegionTable::WhyNoName(name), "") << name;
  }
  EXPECT_EQ(RegionTable::WhyNoName(std::string(200, 'a')), "");
  EXPECT_NE(RegionTable::WhyNoName(std::string(201, 'a')), "");
}

TEST(RegionTableTest, WithoutRoomItIsTheRegionAround) {
  const auto table = std::make_unique<RegionTable>();
  const RegionId outer = table->Enter(kNoRegion, "outer");
  for (int i = 0; i < 2000; ++i) {
    const RegionId id = table->Enter(outer, absl::StrCat("r", i));
    EXPECT_LT(id, kMaxRegions);
    if (i > 1100) {
      EXPECT_EQ(id, outer);
    }
  }
  EXPECT_EQ(table->size(), kMaxRegions);
  EXPECT_NE(table->Enter(outer, "r7"), outer);  // it was there
  EXPECT_EQ(table->Enter(outer, "r1999"), outer);
  // Whole names have a bound, too: 200 characters of each.
  EXPECT_EQ(table->Enter(outer, std::string(200, 'x')), outer);
}

TEST(RegionTableTest, AnotherProcessKnowsARegionByItsHash) {
  const auto one = std::make_unique<RegionTable>();
  const auto other = std::make_unique<RegionTable>();
  other->Enter(kNoRegion, "first");
  const RegionId id = one->Enter(kNoRegion, "solve/newton");
  EXPECT_EQ(one->HashOf(kNoRegion), 0u);
  const RegionId nameless = other->OfHash(one->HashOf(id));
  EXPECT_NE(nameless, kNoRegion);
  EXPECT_EQ(other->OfHash(one->HashOf(id)), nameless);
  EXPECT_EQ(other->NameOf(nameless), "");
  EXPECT_EQ(other->OfHash(0), kNoRegion);
  // It is that region once it is entered.
  EXPECT_EQ(other->Enter(kNoRegion, "solve/newton"), nameless);
  EXPECT_EQ(other->NameOf(nameless), "solve/newton");
  EXPECT_EQ(other->HashOf(nameless), one->HashOf(id));
}

TEST(RegionTableTest, RulesHoldForWhatWasThereAndWhatComes) {
  const auto table = std::make_unique<RegionTable>();
  const RegionId before = table->Enter(kNoRegion, "a");
  RegionRule rule{"a*", {}, /*is_from_program=*/true};
  rule.settings.threshold = 3;
  EXPECT_TRUE(table->AddRule(rule));
  EXPECT_FALSE(table->AddRule(rule));  // the same once more
  EXPECT_EQ(table->SettingsOf(before).threshold, 3);
  EXPECT_EQ(table->SettingsOf(table->Enter(kNoRegion, "ab")).threshold, 3);
  EXPECT_FALSE(table->SettingsOf(kNoRegion).threshold.has_value());
  RegionRule file{"ab", {}, false};
  file.settings.threshold = 9;
  file.settings.strict = true;
  table->SetFileRules({file});
  const RegionId ab = table->FindInside(kNoRegion, "ab");
  EXPECT_EQ(table->SettingsOf(ab).threshold, 3);
  EXPECT_EQ(table->SettingsOf(ab).strict, true);
  // The same pattern replaces what was said.
  EXPECT_TRUE(table->AddRule({"a*", {}, true}));
  EXPECT_EQ(table->SettingsOf(ab).threshold, 9);
  EXPECT_FALSE(table->AddRule({"nobody", rule.settings, true}));
}

TEST(RegionTableTest, ThreadsAgreeOnIds) {
  const auto table = std::make_unique<RegionTable>();
  constexpr int kThreads = 4, kNames = 300;
  std::vector<std::vector<RegionId>> ids(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kNames; ++i) {
        const std::string name = absl::StrCat("n", i % 50, "/m", i);
        ids[t].push_back(table->Enter(kNoRegion, name));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 1; t < kThreads; ++t) EXPECT_EQ(ids[t], ids[0]);
  EXPECT_EQ(table->size(), 1u + 50 + kNames);
}

TEST(RegionTableTest, WhyOpsRunAtTheCall) {
  const auto table = std::make_unique<RegionTable>();
  const RegionId a = table->Enter(kNoRegion, "a");
  EXPECT_STREQ(table->WhyAtCall(a, 5), "");
  table->RecordAtCall(a, 5, "opaque");
  EXPECT_STREQ(table->WhyAtCall(a, 5), "opaque");
  EXPECT_TRUE(table->IsFirstReplay(a));
  EXPECT_FALSE(table->IsFirstReplay(a));
}

}  // namespace
}  // namespace tjit

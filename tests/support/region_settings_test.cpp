// Which rule holds for which named region, option by option.
#include "support/region_settings.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tjit {
namespace {

using ::testing::HasSubstr;

RegionRule Threshold(std::string pattern, std::int64_t threshold,
                     bool is_from_program = false) {
  RegionRule rule{std::move(pattern), {}, is_from_program};
  rule.settings.threshold = threshold;
  return rule;
}

TEST(RegionSettingsTest, ARuleIsForItsRegionAndThoseInside) {
  EXPECT_TRUE(IsForRegion("solve", "solve"));
  EXPECT_TRUE(IsForRegion("solve", "solve/newton"));
  EXPECT_TRUE(IsForRegion("solve", "solve/newton/line"));
  EXPECT_FALSE(IsForRegion("solve", "solver"));
  EXPECT_FALSE(IsForRegion("solve", "a/solve"));
  EXPECT_FALSE(IsForRegion("solve/newton", "solve"));
}

TEST(RegionSettingsTest, WildcardsStandForAnyText) {
  EXPECT_TRUE(IsForRegion("*", "a/b"));
  EXPECT_TRUE(IsForRegion("solve/fft*", "solve/fft_forward"));
  EXPECT_TRUE(IsForRegion("solve/fft*", "solve/fft"));
  EXPECT_FALSE(IsForRegion("solve/fft*", "solve/f"));
  EXPECT_TRUE(IsForRegion("*/newton", "a/b/newton"));
  EXPECT_TRUE(IsForRegion("*/newton", "a/newton/inner"));
  EXPECT_TRUE(IsForRegion("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(IsForRegion("a*b*c", "aXbYbZ"));
  EXPECT_TRUE(IsForRegion("lay?r", "layer"));
  EXPECT_FALSE(IsForRegion("lay?r", "layr"));
}

TEST(RegionSettingsTest, TheMoreSpecificRuleWinsOptionByOption) {
  std::vector<RegionRule> rules = {
      Threshold("solve/newton", 7), Threshold("solve", 5), Threshold("*", 3),
      Threshold("solve/*", 6), Threshold("solve/newton*", 8)};
  do {
    EXPECT_EQ(SettleRegion("solve/newton", rules).threshold, 7);
    EXPECT_EQ(SettleRegion("solve/newton2", rules).threshold, 8);
    EXPECT_EQ(SettleRegion("solve/other", rules).threshold, 6);
    EXPECT_EQ(SettleRegion("solve", rules).threshold, 5);
    EXPECT_EQ(SettleRegion("else", rules).threshold, 3);
  } while (std::next_permutation(
      rules.begin(), rules.end(),
      [](const auto& a, const auto& b) { return a.pattern < b.pattern; }));
  RegionRule strict{"solve", {}, false};
  strict.settings.strict = true;
  rules.push_back(strict);
  EXPECT_EQ(SettleRegion("solve/newton", rules).threshold, 7);
  EXPECT_EQ(SettleRegion("solve/newton", rules).strict, true);
  EXPECT_FALSE(SettleRegion("else", rules).strict.has_value());
}

TEST(RegionSettingsTest, TheProgramWinsOverTheFile) {
  EXPECT_EQ(
      SettleRegion("solve", {Threshold("*", 3, true), Threshold("solve", 9)})
          .threshold,
      3);
}

TEST(RegionSettingsTest, OfEqualPatternsTheLastOneWins) {
  EXPECT_EQ(SettleRegion("a", {Threshold("a", 3), Threshold("a", 4)}).threshold,
            4);
}

TEST(RegionSettingsTest, NamesOfOps) {
  EXPECT_TRUE(NamesOp("aten::add.Tensor", "aten::add.Tensor"));
  EXPECT_TRUE(NamesOp("aten::add", "aten::add.Tensor"));
  EXPECT_FALSE(NamesOp("aten::add", "aten::addmm"));
  EXPECT_TRUE(NamesOp("aten::add*", "aten::addmm"));
  EXPECT_TRUE(NamesOp("myops::", "myops::contact"));
  EXPECT_FALSE(NamesOp("myops::", "aten::add"));
  RegionSettings settings;
  EXPECT_FALSE(settings.Excludes("aten::add"));
  settings.exclude = RegionExclusion{false, {"myops::", "aten::_fft_*"}};
  EXPECT_TRUE(settings.Excludes("aten::_fft_r2c"));
  EXPECT_FALSE(settings.Excludes("aten::add.Tensor"));
  EXPECT_FALSE(settings.excludes_all());
  settings.exclude = RegionExclusion{true, {}};
  EXPECT_TRUE(settings.Excludes("aten::add.Tensor"));
}

TEST(RegionSettingsTest, EachOptionHasItsValues) {
  RegionSettings s;
  std::string accepted;
  const auto set = [&](const char* option, const char* value) {
    return SetRegionOption(option, value, &s, &accepted);
  };
  EXPECT_EQ(set("threshold", "2"), SetResult::kSet);
  EXPECT_EQ(s.threshold, 2);
  for (const char* bad : {"1", "1000001", "", "x", "2x", "-3"}) {
    EXPECT_EQ(set("threshold", bad), SetResult::kBadValue) << bad;
  }
  EXPECT_THAT(accepted, HasSubstr("from 2 to 1000000"));
  EXPECT_EQ(set("backend", "replay"), SetResult::kSet);
  EXPECT_EQ(s.backend, BackendName::kReplay);
  EXPECT_EQ(set("backend", "llwm"), SetResult::kBadValue);
  EXPECT_EQ(set("shapes", "exact"), SetResult::kSet);
  EXPECT_EQ(s.is_exact, true);
  EXPECT_EQ(set("shapes", "all"), SetResult::kBadValue);
  EXPECT_EQ(set("compile", "off"), SetResult::kSet);
  EXPECT_EQ(s.compile, false);
  EXPECT_EQ(set("strict", "yes"), SetResult::kSet);
  EXPECT_EQ(s.strict, true);
  EXPECT_EQ(set("exclude", "true"), SetResult::kSet);
  EXPECT_TRUE(s.excludes_all());
  EXPECT_EQ(set("exclud", "true"), SetResult::kUnknown);
}

}  // namespace
}  // namespace tjit

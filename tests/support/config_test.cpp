// Checks support/config.h with the real reader of YAML: each key, the place in
// every complaint, and that what is wrong is not used while the rest is.
#include "support/config.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tjit {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

ConfigFile Parse(const std::string& text) {
  return ParseConfig("a.yaml", text, &tjit_read_yaml);
}

TEST(ConfigTest, EachKeySetsItsOption) {
  const ConfigFile f = Parse(
      "# what we use\n"
      "auto_compile: true\n"
      "backend: interpreter\n"
      "compile_all: false\n"
      "debug_compile: true\n"
      "hot_threshold:   25\n"
      "instruction_log: a.log\n"
      "instruction_log_mb: 64\n"
      "dump: ir,asm\n"
      "dump_file: a.dump\n"
      "perf_map: true\n"
      "stats_path: \"/tmp/5\"\n"
      "stress: hide\n");
  const EnvOptions& o = f.options;
  EXPECT_THAT(o.complaints, IsEmpty());
  EXPECT_TRUE(o.has_auto_compile && o.auto_compile);
  EXPECT_TRUE(o.has_backend && o.backend == BackendName::kInterpreter);
  EXPECT_TRUE(o.has_compile_all && !o.compile_all);
  EXPECT_TRUE(o.has_debug_compile && o.debug_compile);
  EXPECT_TRUE(o.has_hot_threshold);
  EXPECT_EQ(o.hot_threshold, 25);
  EXPECT_EQ(o.instruction_log_path, "a.log");
  EXPECT_EQ(o.instruction_log_mb, 64);
  EXPECT_EQ(o.dump, kDumpIr | kDumpAsm);
  EXPECT_EQ(o.dump_path, "a.dump");
  EXPECT_TRUE(o.has_perf_map && o.perf_map);
  EXPECT_EQ(o.stats_path, "/tmp/5");
  EXPECT_TRUE(o.has_stress && o.stress == kStressHide);
  EXPECT_EQ(f.where.at("hot_threshold"), "a.yaml:6:18");
  EXPECT_EQ(f.where.size(), 12u);
}

std::string RegionLines(const ConfigFile& f) {
  std::string text;
  for (const RegionLine& line : f.region_lines) {
    text += line.pattern + "." + line.option + "=" + line.value + "@" +
            line.where + "\n";
  }
  return text;
}

TEST(ConfigTest, OptionsOfRegions) {
  const ConfigFile f = Parse(
      "hot_threshold: 5\n"
      "regions:\n"
      "  solve: {compile: true, threshold: 2, backend: llvm, shapes: any,\n"
      "          strict: on}\n"
      "  \"solve/fft*\": {exclude: true}\n"
      "  train:\n"
      "    exclude: [\"aten::_fft_*\", 'myops::']\n"
      "    shapes: exact\n"
      "  nothing:\n"
      "  empty: {}\n");
  EXPECT_THAT(f.options.complaints, IsEmpty());
  EXPECT_EQ(f.options.hot_threshold, 5);
  EXPECT_EQ(RegionLines(f),
            "solve.compile=true@a.yaml:3:20\n"
            "solve.threshold=2@a.yaml:3:37\n"
            "solve.backend=llvm@a.yaml:3:49\n"
            "solve.shapes=any@a.yaml:3:63\n"
            "solve.strict=on@a.yaml:4:19\n"
            "solve/fft*.exclude=true@a.yaml:5:27\n"
            "train.exclude=[aten::_fft_*, myops::]@a.yaml:7:14\n"
            "train.shapes=exact@a.yaml:8:13\n");
  ASSERT_EQ(f.region_rules.size(), 3u);
  const RegionSettings solve = SettleRegion("solve", f.region_rules);
  EXPECT_EQ(solve.threshold, 2);
  EXPECT_EQ(solve.backend, BackendName::kLlvm);
  EXPECT_EQ(solve.is_exact, false);
  EXPECT_EQ(solve.strict, true);
  EXPECT_FALSE(solve.excludes_all());
  EXPECT_TRUE(SettleRegion("solve/fft2", f.region_rules).excludes_all());
  EXPECT_EQ(SettleRegion("solve/fft2", f.region_rules).threshold, 2);
  const RegionSettings train = SettleRegion("train", f.region_rules);
  EXPECT_TRUE(train.Excludes("aten::_fft_r2c"));
  EXPECT_TRUE(train.Excludes("myops::contact"));
  EXPECT_FALSE(train.Excludes("aten::add.Tensor"));
}

TEST(ConfigTest, NothingButAMapIsOptionsOfRegions) {
  for (const char* text : {"regions:\n", "regions: {}\n", "regions: ~\n"}) {
    EXPECT_THAT(Parse(text).options.complaints, IsEmpty()) << text;
  }
  EXPECT_THAT(Parse("regions: 5\n").options.complaints,
              ElementsAre("TJIT_CONFIG: a.yaml:1:10: regions: 5 is not used, "
                          "accepted is a map of names of regions to their "
                          "options"));
  EXPECT_THAT(Parse("regions: [a]\n").options.complaints,
              ElementsAre(HasSubstr("a.yaml:1:10: regions: a list or a map is "
                                    "not used")));
  EXPECT_THAT(
      Parse("regions:\n  solve: true\n  other: [a, b]\n").options.complaints,
      ElementsAre("TJIT_CONFIG: a.yaml:2:10: regions.solve: true is not used, "
                  "accepted is a map of options (backend, compile, exclude, "
                  "shapes, strict, threshold)",
                  HasSubstr("a.yaml:3:10: regions.other: a list or a map is "
                            "not used, accepted is a map of options")));
  EXPECT_THAT(Parse("region:\n  a: {}\n").options.complaints,
              ElementsAre(HasSubstr("\"region\" is not an option of tjit, did "
                                    "you mean regions?")));
}

TEST(ConfigTest, WhatIsWrongWithARegionIsSaidWithItsPlace) {
  const ConfigFile f = Parse(
      "regions:\n"
      "  a: {treshold: 2, threshold: 1}\n"
      "  b: {threshold: 3, threshold: 4, shapes: all, compile: \"on\"}\n"
      "  c: {exclude: [aten::add, \"\", [x]], backend: {x: y}, strict: [a]}\n"
      "  d: {exclude: [a], exclude: [b], threshold: 7}\n"
      "  \"\": {threshold: 2}\n");
  EXPECT_THAT(
      f.options.complaints,
      ElementsAre(
          "TJIT_CONFIG: a.yaml:2:17: \"treshold\" is not an option of a "
          "region, "
          "did you mean threshold? (known: backend, compile, exclude, shapes, "
          "strict, threshold)",
          "TJIT_CONFIG: a.yaml:2:31: regions.a.threshold: 1 is not used, "
          "accepted is a whole number from 2 to 1000000",
          "TJIT_CONFIG: a.yaml:3:32: regions.b.threshold is not used: it is "
          "set "
          "already at a.yaml:3:18",
          "TJIT_CONFIG: a.yaml:3:43: regions.b.shapes: all is not used, "
          "accepted is any or exact",
          AllOf(StartsWith("TJIT_CONFIG: a.yaml:3:57: regions.b.compile: "
                           "\"on\" is not used"),
                HasSubstr(", without quotes")),
          HasSubstr(
              "a.yaml:4:28: regions.c.exclude: \"\" is not used, accepted "
              "is the name of an op"),
          HasSubstr("a.yaml:4:32: regions.c.exclude: a list or a map is not "
                    "used"),
          HasSubstr("a.yaml:4:47: regions.c.backend: a list or a map is not "
                    "used, accepted is replay, interpreter, llvm or "
                    "torchscript"),
          HasSubstr("regions.c.strict: a list or a map is not used"),
          HasSubstr("regions.d.exclude is not used: it is set already at "
                    "a.yaml:5:16"),
          HasSubstr("the name of a region is empty")));
  EXPECT_EQ(RegionLines(f),
            "b.threshold=3@a.yaml:3:18\n"
            "c.exclude=[aten::add]@a.yaml:4:16\n"
            "d.exclude=[a]@a.yaml:5:16\n"
            "d.threshold=7@a.yaml:5:46\n");
}

TEST(ConfigTest, NothingIsSetByAFileOfNothing) {
  for (const char* text : {"", "\n\n", "# only words\n", "---\n", "{}", "~"}) {
    const ConfigFile f = Parse(text);
    EXPECT_THAT(f.options.complaints, IsEmpty()) << text;
    EXPECT_THAT(f.where, IsEmpty()) << text;
  }
}

TEST(ConfigTest, EveryVariableButTheSpecialOnesHasAKey) {
  std::set<std::string_view> keyed;
  for (const std::string_view key :
       {
#define TJIT_CONFIG_KEY(key, variable, kind) #key,
#include "support/config_keys.def"
#undef TJIT_CONFIG_KEY
       }) {
    keyed.insert(VariableOfKey(key));
  }
  for (const std::string_view name : VariableNames()) {
    const bool is_special =
        name == "TJIT_CONFIG" || name == "TJIT_BLESS" ||
        name == "TJIT_DISABLE" || name == "TJIT_OPT_LIMIT" ||
        name == "TJIT_REPRO" || name == "TJIT_REPRO_DIR" ||
        name == "TJIT_PRINT_CONFIG" || name == "TJIT_LOG" ||
        name == "TJIT_PLANTED_DEFECT" || name == "TJIT_THREAD_TRIALS" ||
        name == "TJIT_TRACE_TRIALS" || name == "TJIT_VERIFY" ||
        name == "TJIT_WATCHDOG";
    EXPECT_NE(keyed.contains(name), is_special) << name;
  }
  EXPECT_EQ(VariableOfKey("TJIT_STATS"), "");
}

TEST(ConfigTest, ABadValueIsSaidWithItsPlaceAndTheRestIsUsed) {
  const ConfigFile f = Parse(
      "hot_threshold: 1\n"
      "compile_all: maybe\n"
      "debug_compile: \"true\"\n"
      "stress:\n"
      "stats_path: [a, b]\n"
      "auto_compile: true\n");
  EXPECT_THAT(
      f.options.complaints,
      ElementsAre(
          "TJIT_CONFIG: a.yaml:1:16: hot_threshold: 1 is not used, accepted is "
          "a whole number from 2 to 1000000 (default 10)",
          "TJIT_CONFIG: a.yaml:2:14: compile_all: maybe is not used, accepted "
          "is 0, n, no, off, false, 1, y, yes, on or true",
          "TJIT_CONFIG: a.yaml:3:16: debug_compile: \"true\" is not used, "
          "accepted is 0, n, no, off, false, 1, y, yes, on or true, without "
          "quotes",
          AllOf(StartsWith("TJIT_CONFIG: a.yaml:4:"),
                HasSubstr("stress: nothing is not used, accepted is ")),
          AllOf(StartsWith("TJIT_CONFIG: a.yaml:5:13: stats_path: a list or a "
                           "map is not used"),
                HasSubstr("a path"))));
  EXPECT_FALSE(f.options.has_hot_threshold);
  EXPECT_FALSE(f.options.has_compile_all);
  EXPECT_FALSE(f.options.has_debug_compile);
  EXPECT_FALSE(f.options.has_stress);
  EXPECT_FALSE(f.options.has_stats_path);
  EXPECT_TRUE(f.options.auto_compile);
}

TEST(ConfigTest, OnAndOffAreSpelledAsInTheEnvironment) {
  for (const char* on : {"true", "True", "yes", "y", "on", "ON", "1"}) {
    const ConfigFile f = Parse("compile_all: " + std::string(on));
    EXPECT_TRUE(f.options.has_compile_all && f.options.compile_all) << on;
    EXPECT_THAT(f.options.complaints, IsEmpty()) << on;
  }
  for (const char* off : {"false", "no", "N", "off", "0"}) {
    const ConfigFile f = Parse("compile_all: " + std::string(off));
    EXPECT_TRUE(f.options.has_compile_all && !f.options.compile_all) << off;
    EXPECT_THAT(f.options.complaints, IsEmpty()) << off;
  }
}

TEST(ConfigTest, ANumberIsWholeAndWithoutQuotes) {
  for (const char* value : {"\"5\"", "'5'", "5.0", "five", "-5", "0x5", "1e3",
                            "true", "{a: 1}", "99999999999999999999"}) {
    const ConfigFile f = Parse("hot_threshold: " + std::string(value));
    EXPECT_FALSE(f.options.has_hot_threshold) << value;
    EXPECT_EQ(f.options.complaints.size(), 1u) << value;
  }
}

TEST(ConfigTest, AnUnknownKeySuggestsTheNearest) {
  EXPECT_THAT(
      Parse("hot_treshold: 5\nzebra: 1\nTJIT_STATS: x\n").options.complaints,
      ElementsAre(
          AllOf(StartsWith("TJIT_CONFIG: a.yaml:1:15: \"hot_treshold\" is not "
                           "an option of tjit, did you mean hot_threshold? "
                           "(known: auto_compile, "),
                HasSubstr("strict)")),
          AllOf(HasSubstr("\"zebra\""), Not(HasSubstr("did you"))),
          HasSubstr("a.yaml:3:13: \"TJIT_STATS\" is not an option")));
}

TEST(ConfigTest, AKeyGivenTwiceKeepsItsFirstValue) {
  const ConfigFile f = Parse("hot_threshold: 5\nhot_threshold: 6\n");
  EXPECT_EQ(f.options.hot_threshold, 5);
  EXPECT_THAT(f.options.complaints,
              ElementsAre("TJIT_CONFIG: a.yaml:2:16: hot_threshold is not "
                          "used: it is set already at a.yaml:1:16"));
}

TEST(ConfigTest, WhatIsNoYamlOfOursIsSaidWithItsPlaceAndNotUsed) {
  const std::string deep(100000, '[');
  const std::string binary("\x7f" "ELF\0\1\2\xff\xfe: [\0", 13);
  const struct {
    std::string text;
    std::string place;
  } cases[] = {
      {"hot_threshold: 5\n  compile_all: true\n", "a.yaml:2:"},
      {"hot_threshold: [5\n", "a.yaml:2:"},
      {"{hot_threshold: 5\n", "a.yaml:2:"},
      {"\thot_threshold: 5\n", "a.yaml:1:"},
      {"- hot_threshold: 5\n", "a.yaml:1:1: "},
      {"just words\n", "a.yaml:1:1: "},
      {"hot_threshold: 5\n---\nhot_threshold: 6\n", "a.yaml:3:1: "},
      {"? [a]\n: 5\n", "a.yaml:1:3: "},
      {"hot_threshold: *nobody\n", "a.yaml:1:16: "},
      {deep, "a.yaml:1:"},
      {binary, "a.yaml:1:"},
  };
  for (const auto& c : cases) {
    const ConfigFile f = Parse(c.text);
    ASSERT_EQ(f.options.complaints.size(), 1u) << c.text.substr(0, 50);
    EXPECT_THAT(f.options.complaints[0], StartsWith("TJIT_CONFIG: " + c.place));
    EXPECT_THAT(f.options.complaints[0], HasSubstr("nothing of this one"));
    EXPECT_FALSE(f.options.has_hot_threshold);
  }
}

TEST(ConfigTest, AFileThatCannotBeReadSaysWhy) {
  std::string text;
  EXPECT_EQ(ReadConfig("/no/such/file", &text), "No such file or directory");
  EXPECT_EQ(ReadConfig("/tmp", &text), "Is a directory");
  EXPECT_THAT(ReadConfig("/dev/zero", &text), HasSubstr("longer than"));
}

}  // namespace
}  // namespace tjit

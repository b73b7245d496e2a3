#include "support/env.h"

#include <initializer_list>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tjit {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

EnvOptions Parse(std::vector<const char*> entries) {
  entries.push_back(nullptr);
  return ParseEnvironment(entries.data());
}

TEST(EnvTest, NothingIsSetByAnEmptyOrForeignEnvironment) {
  for (const EnvOptions& o :
       {Parse({}), Parse({"PATH=/bin", "XTJIT_COMPILE=1", "TJIT"}),
        ParseEnvironment(nullptr)}) {
    EXPECT_FALSE(o.auto_compile);
    EXPECT_FALSE(o.has_compile_all);
    EXPECT_FALSE(o.has_debug_compile);
    EXPECT_FALSE(o.has_hot_threshold);
    EXPECT_FALSE(o.has_stress);
    EXPECT_FALSE(o.has_stats_path);
    EXPECT_THAT(o.complaints, IsEmpty());
  }
}

TEST(EnvTest, EachVariableSetsItsOption) {
  const EnvOptions o = Parse({"TJIT_AUTO_COMPILE=1",
                              "TJIT_BACKEND=llvm",
                              "TJIT_CACHE_DIR=/c d",
                              "TJIT_COMPILE=1",
                              "TJIT_DEBUG_COMPILE=0",
                              "TJIT_DUMP=plan,ir",
                              "TJIT_DUMP_FILE=a.dump",
                              "TJIT_PERF_MAP=1",
                              "TJIT_FAST_MATH=1",
                              "TJIT_HOT_THRESHOLD=25",
                              "TJIT_STRESS=hide",
                              "TJIT_BLESS=1",
                              "TJIT_PROFILE=a.tjitprofile",
                              "TJIT_CONFIG=a.yaml",
                              "TJIT_PRINT_CONFIG=1",
                              "TJIT_OPT_LIMIT=12",
                              "TJIT_REPRO=slow,0a12",
                              "TJIT_REPRO_DIR=a folder",
                              "TJIT_SHADOW=1",
                              "TJIT_STRICT=1",
                              "TJIT_VERIFY=1",
                              "TJIT_STATS=/tmp/a=b.json",
                              "TJIT_PLANTED_DEFECT=stale_scalar",
                              "TJIT_INSTRUCTION_LOG=a b.log"});
  EXPECT_TRUE(o.auto_compile);
  EXPECT_TRUE(o.has_backend && o.backend == BackendName::kLlvm);
  EXPECT_TRUE(o.has_cache_dir);
  EXPECT_EQ(o.cache_dir, "/c d");
  EXPECT_TRUE(o.has_compile_all && o.compile_all);
  EXPECT_TRUE(o.has_debug_compile && !o.debug_compile);
  EXPECT_EQ(o.dump, kDumpPlan | kDumpIr);
  EXPECT_EQ(o.dump_path, "a.dump");
  EXPECT_TRUE(o.has_perf_map && o.perf_map);
  EXPECT_TRUE(o.has_fast_math && o.fast_math);
  EXPECT_TRUE(o.has_hot_threshold);
  EXPECT_EQ(o.hot_threshold, 25);
  EXPECT_TRUE(o.has_stress);
  EXPECT_EQ(o.stress, kStressHide);
  EXPECT_EQ(o.profile_path, "a.tjitprofile");
  EXPECT_EQ(o.opt_limit, 12);
  EXPECT_EQ(o.repro_dir, "a folder");
  EXPECT_TRUE(o.has_shadow && o.shadow);
  EXPECT_TRUE(o.has_strict && o.strict);
  EXPECT_TRUE(o.bless);
  EXPECT_TRUE(o.verify);
  EXPECT_EQ(o.config_path, "a.yaml");
  EXPECT_TRUE(o.print_config);
  EXPECT_TRUE(o.has_stats_path);
  EXPECT_EQ(o.stats_path, "/tmp/a=b.json");
  EXPECT_EQ(o.planted_defect, "stale_scalar");
  EXPECT_EQ(o.instruction_log_path, "a b.log");
  EXPECT_THAT(o.complaints, IsEmpty());
}

TEST(EnvTest, TheFolderOfTheUsersCaches) {
  EXPECT_EQ(Parse({"TJIT_CACHE_DIR="}).cache_dir, kCacheOff);
  EXPECT_EQ(Parse({"TJIT_CACHE_DIR=off"}).cache_dir, kCacheOff);
  EXPECT_FALSE(Parse({"HOME=/h"}).has_cache_dir);
  EXPECT_EQ(Parse({"HOME=/h"}).user_cache_dir, "/h/.cache/tjit");
  EXPECT_EQ(Parse({"XDG_CACHE_HOME=/x", "HOME=/h"}).user_cache_dir, "/x/tjit");
  EXPECT_EQ(Parse({"XDG_CACHE_HOME=x", "HOME=/h"}).user_cache_dir,
            "/h/.cache/tjit");
  EXPECT_EQ(Parse({"HOME="}).user_cache_dir, "");
}

TEST(EnvTest, BadValueIsNotUsedAndNamesWhatIsAccepted) {
  const EnvOptions o =
      Parse({"TJIT_AUTO_COMPILE=sure", "TJIT_COMPILE=", "TJIT_HOT_THRESHOLD=1",
             "TJIT_SHADOW=of", "TJIT_STRESS=soon", "TJIT_STRICT=2",
             "TJIT_STATS=", "TJIT_INSTRUCTION_LOG=", "TJIT_BACKEND=gpu",
             "TJIT_FAST_MATH=yess", "TJIT_DISABLE=ja"});
  EXPECT_FALSE(o.has_fast_math || o.fast_math);
  EXPECT_FALSE(o.has_backend);
  EXPECT_FALSE(o.auto_compile);
  EXPECT_FALSE(o.has_compile_all);
  EXPECT_FALSE(o.has_hot_threshold);
  EXPECT_FALSE(o.has_stress || o.has_shadow || o.has_strict);
  EXPECT_FALSE(o.has_stats_path);
  EXPECT_FALSE(o.disable);
  const std::string words = "accepted is 0, n, no, off, false, 1, y, yes, on "
                            "or true";
  EXPECT_THAT(
      o.complaints,
      ElementsAre(
          AllOf(HasSubstr("TJIT_AUTO_COMPILE=sure"), HasSubstr(words)),
          AllOf(HasSubstr("TJIT_COMPILE="), HasSubstr(words)),
          AllOf(HasSubstr("TJIT_HOT_THRESHOLD=1"),
                HasSubstr("a whole number from 2 to 1000000 (default 10)")),
          AllOf(HasSubstr("TJIT_SHADOW=of"), HasSubstr(words)),
          AllOf(HasSubstr("TJIT_STRESS=soon"),
                HasSubstr("accepted is hide, or some of late, check, shuffle, "
                          "shuffle:SEED with commas between")),
          AllOf(HasSubstr("TJIT_STRICT=2"), HasSubstr(words)),
          AllOf(HasSubstr("TJIT_STATS="), HasSubstr("path")),
          AllOf(HasSubstr("TJIT_INSTRUCTION_LOG="), HasSubstr("path")),
          AllOf(HasSubstr("TJIT_BACKEND=gpu"),
                HasSubstr("replay, interpreter, llvm or torchscript")),
          AllOf(HasSubstr("TJIT_FAST_MATH=yess is not used"), HasSubstr(words)),
          AllOf(HasSubstr("TJIT_DISABLE=ja is not used"), HasSubstr(words))));
}

TEST(EnvTest, OnAndOffHaveManySpellings) {
  for (const std::string word :
       {"1", "y", "Y", "yes", "Yes", "YES", "on", "ON", "true", "True"}) {
    const EnvOptions o = Parse({("TJIT_SHADOW=" + word).c_str(),
                                ("TJIT_DISABLE=" + word).c_str(),
                                ("TJIT_AUTO_COMPILE=" + word).c_str()});
    EXPECT_TRUE(o.has_shadow && o.shadow) << word;
    EXPECT_TRUE(o.disable && o.auto_compile) << word;
    EXPECT_THAT(o.complaints, IsEmpty()) << word;
  }
  for (const std::string word :
       {"0", "n", "N", "no", "No", "NO", "off", "Off", "false", "FALSE"}) {
    const EnvOptions o = Parse({("TJIT_SHADOW=" + word).c_str(),
                                ("TJIT_DISABLE=" + word).c_str(),
                                ("TJIT_AUTO_COMPILE=" + word).c_str()});
    EXPECT_TRUE(o.has_shadow && !o.shadow) << word;
    EXPECT_TRUE(o.has_auto_compile && !o.auto_compile) << word;
    EXPECT_FALSE(o.disable) << word;
    EXPECT_THAT(o.complaints, IsEmpty()) << word;
  }
  for (const std::string word : {"", " ", "1 ", "tru", "oN!", "\xd9", "@n"}) {
    EXPECT_EQ(Parse({("TJIT_STRICT=" + word).c_str()}).complaints.size(), 1u)
        << word;
  }
}

TEST(EnvTest, ShadowTakesASwitchOrHowManyRuns) {
  const EnvOptions sampled = Parse({"TJIT_SHADOW=sample:1000"});
  EXPECT_TRUE(sampled.has_shadow && !sampled.shadow);
  EXPECT_EQ(sampled.shadow_sample, 1000);
  EXPECT_THAT(sampled.complaints, IsEmpty());
  EXPECT_EQ(Parse({"TJIT_SHADOW=sample:1"}).shadow_sample, 1);
  EXPECT_EQ(Parse({"TJIT_SHADOW=1"}).shadow_sample, 0);
  for (const char* entry :
       {"TJIT_SHADOW=sample", "TJIT_SHADOW=sample:", "TJIT_SHADOW=sample:0",
        "TJIT_SHADOW=sample:-1", "TJIT_SHADOW=sample:x",
        "TJIT_SHADOW=sample:1000000001", "TJIT_SHADOW=Sample:5"}) {
    const EnvOptions o = Parse({entry});
    EXPECT_FALSE(o.has_shadow) << entry;
    EXPECT_THAT(o.complaints,
                ElementsAre(HasSubstr("or sample:N with a whole number N from "
                                      "1 to 1000000000")))
        << entry;
  }
}

TEST(EnvTest, StressModesCombineButHideDoesNot) {
  EXPECT_EQ(Parse({"TJIT_STRESS=late"}).stress, kStressLate);
  EXPECT_EQ(Parse({"TJIT_STRESS=check,late"}).stress,
            kStressCheck | kStressLate);
  const EnvOptions seeded = Parse({"TJIT_STRESS=late,shuffle:42"});
  EXPECT_EQ(seeded.stress, kStressLate | kStressShuffle);
  EXPECT_TRUE(seeded.has_shuffle_seed);
  EXPECT_EQ(seeded.shuffle_seed, 42u);
  EXPECT_FALSE(Parse({"TJIT_STRESS=shuffle"}).has_shuffle_seed);
  for (const char* entry :
       {"TJIT_STRESS=", "TJIT_STRESS=late,", "TJIT_STRESS=,late",
        "TJIT_STRESS=hide,late", "TJIT_STRESS=shuffle:",
        "TJIT_STRESS=shuffle:x", "TJIT_STRESS=shuffle:-1",
        "TJIT_STRESS=late:3", "TJIT_STRESS=late check"}) {
    const EnvOptions o = Parse({entry});
    EXPECT_FALSE(o.has_stress) << entry;
    EXPECT_EQ(o.complaints.size(), 1u) << entry;
  }
}

TEST(EnvTest, PartsOfADump) {
  EXPECT_EQ(Parse({"TJIT_DUMP=asm"}).dump, kDumpAsm);
  EXPECT_EQ(Parse({"TJIT_DUMP=trace,trace,loops"}).dump,
            kDumpTrace | kDumpLoops);
  const unsigned all = Parse({"TJIT_DUMP=all"}).dump;
  EXPECT_EQ(all, Parse({"TJIT_DUMP=trace,ir,passes,loops,plan,llvm,asm,"
                        "torchscript"})
                     .dump);
  EXPECT_EQ(DumpPartNames(all),
            "trace, ir, passes, loops, plan, llvm, asm, torchscript");
  EXPECT_EQ(DumpPartNames(0), "none");
  for (const char* entry : {"TJIT_DUMP=", "TJIT_DUMP=ir,", "TJIT_DUMP=,ir",
                            "TJIT_DUMP=IR", "TJIT_DUMP=ir passes"}) {
    const EnvOptions o = Parse({entry});
    EXPECT_EQ(o.dump, 0u) << entry;
    EXPECT_THAT(o.complaints,
                ElementsAre(HasSubstr("accepted is all, or some of trace, ir, "
                                      "passes, loops, plan, llvm, asm, "
                                      "torchscript with commas between")));
  }
  EXPECT_THAT(Parse({"TJIT_DUMP_FILE="}).complaints,
              ElementsAre(HasSubstr("accepted is a path to write to")));
  EXPECT_THAT(Parse({"TJIT_PROFILE="}).complaints,
              ElementsAre(HasSubstr("accepted is a file, or off")));
  EXPECT_THAT(Parse({"TJIT_PERF_MAP=some"}).complaints,
              ElementsAre(HasSubstr("TJIT_PERF_MAP=some is not used")));
}

TEST(EnvTest, ThresholdIsAWholeNumberInItsRange) {
  for (const char* entry :
       {"TJIT_HOT_THRESHOLD=", "TJIT_HOT_THRESHOLD=ten",
        "TJIT_HOT_THRESHOLD=10x", "TJIT_HOT_THRESHOLD= 10",
        "TJIT_HOT_THRESHOLD=-3", "TJIT_HOT_THRESHOLD=2.5",
        "TJIT_HOT_THRESHOLD=1000001",
        "TJIT_HOT_THRESHOLD=99999999999999999999"}) {
    const EnvOptions o = Parse({entry});
    EXPECT_FALSE(o.has_hot_threshold) << entry;
    EXPECT_EQ(o.complaints.size(), 1u) << entry;
  }
  for (const char* entry :
       {"TJIT_MAX_TRACE_STEPS=99", "TJIT_MAX_TRACE_STEPS=100000001",
        "TJIT_MAX_TRACE_MB=0", "TJIT_MAX_TRACE_MB=1.5", "TJIT_MAX_MEMORY_MB=-1",
        "TJIT_MAX_MEMORY_MB=1000001", "TJIT_INSTRUCTION_LOG_MB=0",
        "TJIT_INSTRUCTION_LOG_MB=1000001"}) {
    EXPECT_THAT(Parse({entry}).complaints,
                ElementsAre(AllOf(HasSubstr(entry), HasSubstr("accepted is"))));
  }
  EXPECT_EQ(Parse({"TJIT_MAX_TRACE_STEPS=100"}).max_trace_steps, 100);
  EXPECT_EQ(Parse({"TJIT_MAX_TRACE_MB=1000000"}).max_trace_mb, 1000000);
  EXPECT_EQ(Parse({"TJIT_MAX_MEMORY_MB=64"}).max_memory_mb, 64);
  EXPECT_TRUE(Parse({"TJIT_MAX_MEMORY_MB=0"}).has_max_memory_mb);
  EXPECT_EQ(Parse({"TJIT_INSTRUCTION_LOG_MB=1000000"}).instruction_log_mb,
            1000000);
  EXPECT_EQ(Parse({"TJIT_HOT_THRESHOLD=2"}).hot_threshold, 2);
  EXPECT_EQ(Parse({"TJIT_HOT_THRESHOLD=1000000"}).hot_threshold, 1000000);
}

TEST(EnvTest, UnknownNameSuggestsTheNearest) {
  const EnvOptions o = Parse({"TJIT_AUTOCOMPILE=1", "TJIT_STRESSS=hide",
                              "TJIT_ZEBRA_CROSSING=1", "TJIT_=1"});
  EXPECT_FALSE(o.auto_compile);
  EXPECT_FALSE(o.has_stress);
  EXPECT_THAT(
      o.complaints,
      ElementsAre(
          AllOf(HasSubstr("TJIT_AUTOCOMPILE is not a variable"),
                HasSubstr("did you mean TJIT_AUTO_COMPILE?")),
          HasSubstr("did you mean TJIT_STRESS?"),
          AllOf(HasSubstr("TJIT_ZEBRA_CROSSING"), Not(HasSubstr("did you")),
                HasSubstr("known: TJIT_AUTO_COMPILE, TJIT_BACKEND, TJIT_")),
          HasSubstr("known: ")));
}

TEST(EnvTest, TheLimitOfPassesAndTheFolderOfSequences) {
  const EnvOptions none = Parse({});
  EXPECT_EQ(none.opt_limit, -1);
  EXPECT_EQ(none.repro, "");
  EXPECT_EQ(none.repro_dir, "");
  EXPECT_EQ(Parse({"TJIT_OPT_LIMIT=0"}).opt_limit, 0);
  const EnvOptions bad = Parse({"TJIT_OPT_LIMIT=-1", "TJIT_OPT_LIMIT=1x",
                                "TJIT_REPRO_DIR=", "TJIT_REPRO=fast"});
  EXPECT_EQ(bad.opt_limit, -1);
  EXPECT_EQ(bad.repro, "");
  EXPECT_THAT(
      bad.complaints,
      ElementsAre(HasSubstr("TJIT_OPT_LIMIT=-1 is not used, accepted is a "
                            "whole number from 0 to 1000000000"),
                  HasSubstr("TJIT_OPT_LIMIT=1x is not used"),
                  HasSubstr("TJIT_REPRO_DIR= is not used, accepted is a "
                            "folder"),
                  HasSubstr("TJIT_REPRO=fast is not used, accepted is all, "
                            "slow, or beginnings of names")));
}

// Names of later versions: silence would look like success.
TEST(EnvTest, NamesThatDoNotExistYetAreUnknown) {
  for (const char* entry : {"TJIT_GPU_STREAMS=3"}) {
    EXPECT_THAT(Parse({entry}).complaints,
                ElementsAre(HasSubstr("is not a variable of tjit")))
        << entry;
  }
}

TEST(EnvTest, EnvironmentIsReadOnce) {
  EXPECT_EQ(&Environment(), &Environment());
}

}  // namespace
}  // namespace tjit

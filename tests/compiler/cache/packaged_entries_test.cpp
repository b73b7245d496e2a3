#include "compiler/cache/packaged_entries.h"

#include <string>

#include "compiler/cache/entry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tjit::cache {
namespace {

using ::testing::HasSubstr;

std::pair<std::string, std::string> Code(const std::string& key,
                                         const std::string& object) {
  return {FileNameOf(key), Encode({key, object})};
}
std::pair<std::string, std::string> Verdicts(const std::string& key,
                                             const std::string& object) {
  return {FileNameOf(key, kVerdictsSuffix), Encode({key, object})};
}

TEST(PackagedEntriesTest, ATextHasAllEntries) {
  const Entries entries = {Code("a\nLLVM 19\nznver3\n", std::string(1, '\0')),
                           Verdicts("b", "x=1\n")};
  Entries read;
  EXPECT_EQ(ParseEntries(JoinEntries(entries), &read), "");
  EXPECT_EQ(read, entries);
  const auto code = Code("a\nLLVM 19\nznver3\n", "");
  EXPECT_EQ(TargetOf(code.first, code.second), "LLVM 19, znver3");
  const auto cpu = Code("a\nLLVM 19\nx86_64 znver3 256 bits +avx,-fma4\n", "");
  EXPECT_EQ(TargetOf(cpu.first, cpu.second), "LLVM 19, x86_64 znver3 256 bits");
  EXPECT_EQ(TargetOf(FileNameOf("b", kVerdictsSuffix), Encode({"b", ""})), "");
}

TEST(PackagedEntriesTest, WhatIsDamagedIsNamed) {
  const std::string text = JoinEntries({Code("a", "object")});
  Entries read;
  EXPECT_THAT(ParseEntries(text.substr(0, text.size() - 1), &read),
              HasSubstr("cut short"));
  std::string changed = text;
  changed.back() ^= 1;
  EXPECT_THAT(ParseEntries(changed, &read), HasSubstr("its checksum is wrong"));
  EXPECT_THAT(ParseEntries("x y\n", &read), HasSubstr("damaged"));
  EXPECT_THAT(ParseEntries("no line", &read), HasSubstr("damaged"));
}

// A cache without a folder has them, and writes nothing.
TEST(PackagedEntriesTest, CachesFindThem) {
  ObjectCache cache("", [](const std::string& text) { FAIL() << text; });
  std::string object;
  EXPECT_FALSE(cache.Find("key", &object));
  cache.Store("key", "stored");
  EXPECT_FALSE(cache.Find("key", &object));
  const std::int64_t before = PackagedVersion();
  AddPackaged({Code("key", "code"), Verdicts("key", "x=1\n")});
  AddPackaged({Code("key", "other"), Verdicts("key", "y=2\n")});
  EXPECT_EQ(PackagedVersion(), before + 2);
  EXPECT_TRUE(cache.Find("key", &object));
  EXPECT_EQ(object, "code");
  EXPECT_TRUE(cache.Find("key", &object, EntryKind::kVerdicts));
  EXPECT_EQ(object, "x=1\ny=2\n");
  EXPECT_FALSE(cache.Find("none", &object));
  EXPECT_EQ(cache.hits(), 1);
}

}  // namespace
}  // namespace tjit::cache

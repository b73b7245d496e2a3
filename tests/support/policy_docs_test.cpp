// docs/design/thresholds.md says what policy.def says; with TJIT_BLESS=1 the
// test writes it. Each threshold is used.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "support/env.h"
#include "support/policy.h"

namespace tjit {
namespace {

constexpr char kBegin[] =
    "<!-- written by tests/support/policy_docs_test.cpp -->\n";

// 65,536; 0.03
template <class T>
std::string TextOf(T value) {
  std::string text = absl::StrCat(value);
  if constexpr (std::is_integral_v<T>) {
    for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  }
  return text;
}

std::string Tables() {
  std::string text;
#define TJIT_POLICY_GROUP(title, file)                          \
  absl::StrAppend(&text, "\n## ", title, "\n\nUsed in `", file, \
                  "`.\n\n| name | value | unit | why |\n|---|---|---|---|\n");
#define TJIT_POLICY(type, name, value, unit, why)                         \
  absl::StrAppend(&text, "| `" #name "` | ", TextOf(policy::name), " | ", \
                  unit, " | ", why, " |\n");
#include "support/policy.def"
  return text;
}

TEST(PolicyDocsTest, TheTablesAreThoseOfPolicyDef) {
  std::ifstream file(TJIT_POLICY_DOCUMENT);
  std::string document{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = document.find(kBegin);
  ASSERT_NE(begin, std::string::npos) << "no mark in " << TJIT_POLICY_DOCUMENT;
  const std::size_t from = begin + std::strlen(kBegin);
  if (Environment().bless) {
    document.replace(from, std::string::npos, Tables());
    std::ofstream(TJIT_POLICY_DOCUMENT) << document;
    return;
  }
  EXPECT_EQ(document.substr(from), Tables())
      << "run this test with TJIT_BLESS=1, and read what changed";
}

// The names behind "policy::" in the sources of one folder.
std::set<std::string> NamesUsedIn(const std::filesystem::path& folder) {
  constexpr std::string_view kPrefix = "policy::";
  std::set<std::string> names;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cpp") continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (std::size_t at = text.find(kPrefix); at != std::string::npos;
         at = text.find(kPrefix, at)) {
      at += kPrefix.size();
      const auto end =
          std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at),
                           text.end(), absl::ascii_isalnum);
      names.emplace(text.begin() + static_cast<std::ptrdiff_t>(at), end);
    }
  }
  return names;
}

TEST(PolicyDocsTest, EachThresholdIsUsed) {
  std::set<std::string> used;
  const std::filesystem::path document(TJIT_POLICY_DOCUMENT);
  const auto root = document.parent_path().parent_path().parent_path();
  for (const char* folder : {"recorder", "runtime"}) {
    used.merge(NamesUsedIn(root / folder));
  }
  for (const char* name : {
#define TJIT_POLICY(type, name, value, unit, why) #name,
#include "support/policy.def"
       }) {
    EXPECT_TRUE(used.contains(name))
        << name << " of support/policy.def decides nothing";
  }
}

TEST(PolicyDocsTest, NumbersAreWrittenInGroups) {
  EXPECT_EQ(TextOf(16), "16");
  EXPECT_EQ(TextOf(512), "512");
  EXPECT_EQ(TextOf(65536), "65,536");
  EXPECT_EQ(TextOf(10'000'000'000), "10,000,000,000");
  EXPECT_EQ(TextOf(0.03), "0.03");
}

}  // namespace
}  // namespace tjit

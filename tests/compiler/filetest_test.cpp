// Runs every file under tests/filetests; see filetest.h.
#include "tests/compiler/filetest.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "support/env.h"

namespace tjit {
namespace {

std::vector<std::filesystem::path> Files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(TJIT_FILETESTS)) {
    const auto& extension = entry.path().extension();
    if (extension == ".ir" || extension == ".trace") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

class FileTestTest : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(FileTestTest, GivesItsOutput) {
  std::ifstream file(GetParam());
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const FileTest test = SplitFileTest(text);
  const std::string output =
      RunFileTest(test, GetParam().extension() == ".trace");
  if (Environment().bless) {
    std::ofstream(GetParam()) << JoinFileTest(test, output);
    return;
  }
  EXPECT_EQ(output, test.output)
      << GetParam() << ": run with TJIT_BLESS=1, and read what changed";
}

INSTANTIATE_TEST_SUITE_P(
    All, FileTestTest, testing::ValuesIn(Files()),
    [](const testing::TestParamInfo<std::filesystem::path>& info) {
      std::string name = info.param.parent_path().filename().string() + "_" +
                         info.param.stem().string();
      std::replace_if(
          name.begin(), name.end(), [](char c) { return !isalnum(c); }, '_');
      return name;
    });

TEST(FileTestRunnerTest, WrongOutputIsNotAccepted) {
  const FileTest test = SplitFileTest(
      "; test run\nfunc f() {\n  %0 = full f32[2] 1.5\n  return %0\n}\n"
      "; ==== output\n; return %0: f32[2] = 1.5 2.5\n");
  EXPECT_EQ(RunFileTest(test, false), "; return %0: f32[2] = 1.5 1.5\n");
  EXPECT_NE(RunFileTest(test, false), test.output);
}

TEST(FileTestRunnerTest, UnknownTestsAreNamed) {
  const FileTest test = SplitFileTest("; test dance\nfunc f() {\n}\n");
  EXPECT_EQ(RunFileTest(test, false),
            "; there is no test 'dance' of a function\n");
}

}  // namespace
}  // namespace tjit

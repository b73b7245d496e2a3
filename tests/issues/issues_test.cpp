// Programs that once showed a mistake, on all engines: tests/issues/*.program.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/differential/ci_seeds.h"
#include "tests/differential/driver.h"
#include "tests/differential/program_text.h"

namespace tjit::differential {
namespace {

std::vector<std::string> Files() {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(TJIT_ISSUES_FOLDER)) {
    if (entry.path().extension() == ".program") {
      files.push_back(entry.path().stem().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string PathOf(const std::string& name) {
  return std::string(TJIT_ISSUES_FOLDER) + "/" + name + ".program";
}

// What `# engine NAME` says.
std::string EngineOf(const std::string& name) {
  std::ifstream in(PathOf(name));
  const std::string key = "# engine ";
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) == 0) return line.substr(key.size());
  }
  return "";
}

class IssuesTest : public ::testing::TestWithParam<std::string> {};

TEST_P(IssuesTest, NoEngineDiffers) {
  const Program program = ReadProgram(PathOf(GetParam()));
  Engine shown = Engine::kEager;
  ASSERT_TRUE(ParseEngine(EngineOf(GetParam()), shown)) << "# engine NAME";
  for (const std::string_view name : EngineNames()) {
    DriverConfig config;
    config.max_drains = kCiDrains;
    ASSERT_TRUE(ParseEngine(name, config.engine));
    const SeedResult result = RunAlone(config, program);
    EXPECT_EQ(result.status, SeedResult::Status::kSame)
        << name << ": " << result.detail;
    if (config.engine == shown) {
      EXPECT_TRUE(result.is_counted) << name << " " << result.share;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, IssuesTest, ::testing::ValuesIn(Files()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tjit::differential

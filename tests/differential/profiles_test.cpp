// Profiles of what the random programs promote: each is written, read again as
// it was, and changes no bit of the programs.
//
// Programs run one after the other without clear(), so that their sequences
// meet in one profile and share steps where they begin alike.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "tests/differential/ci_seeds.h"
#include "tests/differential/engine.h"
#include "tests/differential/generator.h"
#include "tests/differential/machine.h"
#include "tjit/tjit.h"

namespace tjit::differential {
namespace {

constexpr std::uint64_t kBatch = 100;
// Of each batch, programs that run once more with the profile.
constexpr std::uint64_t kAgain = 10;

class ProfilesTest : public ::testing::Test {
 protected:
  ProfilesTest()
      : file_((std::filesystem::temp_directory_path() /
               ("profiles_test." + std::to_string(getpid())))
                  .string()) {}
  ~ProfilesTest() override {
    disable();
    clear();
    std::filesystem::remove(file_);
  }

  static Options Replay() {
    Options options;
    options.hot_threshold = 2;
    options.backend = Backend::kReplay;
    options.cache_dir = "off";
    return options;
  }

  const std::string file_;
};

TEST_F(ProfilesTest, WhatIsWrittenIsReadAgain) {
  std::int64_t sequences = 0, known = 0;
  for (std::uint64_t begin = 0; begin < kCiSeeds; begin += kBatch) {
    ASSERT_TRUE(enable(Replay()));
    for (std::uint64_t seed = begin; seed < begin + kBatch; ++seed) {
      RunProgram(GenerateProgram(seed));
    }
    disable();
    const std::int64_t saved = save_profile(file_);
    sequences += saved;
    clear();
    // THROWS what the next process would say of it.
    std::int64_t read = 0;
    ASSERT_NO_THROW(read = prewarm(file_)) << "seeds from " << begin;
    EXPECT_EQ(read, saved) << "seeds from " << begin;
    for (std::uint64_t seed = begin; seed < begin + kAgain; ++seed) {
      const Program program = GenerateProgram(seed);
      const RunResult eager = RunIn(Engine::kEager, program);
      const Stats before = stats();
      ASSERT_TRUE(enable(Replay()));
      const Log log = RunProgram(program);
      disable();
      known += (stats() - before).traces_known;
      EXPECT_EQ(FirstDifference(eager.log, log, Nans::kByBits), "")
          << "seed " << seed;
    }
    clear();
  }
  std::printf("%lld sequences written and read, %lld of them promoted by it\n",
              static_cast<long long>(sequences), static_cast<long long>(known));
  EXPECT_GT(sequences, static_cast<std::int64_t>(kCiSeeds));
  EXPECT_GT(known, 10);
}

}  // namespace
}  // namespace tjit::differential

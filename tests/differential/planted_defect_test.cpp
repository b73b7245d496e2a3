// Defects planted in the runtime are found within the seeds that CI runs. A
// defect that no program shows would mean that the programs miss its subject.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "runtime/testing.h"
#include "tests/differential/ci_seeds.h"
#include "tests/differential/driver.h"

namespace tjit::differential {
namespace {

class PlantedDefectTest : public ::testing::TestWithParam<const char*> {};

TEST_P(PlantedDefectTest, IsFound) {
  ASSERT_TRUE(tjit::testing::SetPlantedDefect(GetParam()));
  tjit::testing::SetPlantedDefect("");
  DriverConfig config;
  config.last = kCiSeeds;
  config.engine = Engine::kTier1;
  config.defect = GetParam();
  config.timeout_seconds = 30;
  bool is_found = false;
  Summary summary = RunSeeds(config, [&](const SeedResult& result) {
    is_found = result.status == SeedResult::Status::kDiffers;
    return !is_found;
  });
  ASSERT_TRUE(is_found) << summary.ToString();
  const SeedResult& found = summary.failures.back();
  std::printf("found by seed %llu after %lld programs: %s\n",
              static_cast<unsigned long long>(found.seed),
              static_cast<long long>(summary.programs), found.detail.c_str());
}

INSTANTIATE_TEST_SUITE_P(
    All, PlantedDefectTest,
    ::testing::Values("stale_scalar", "lost_alias", "wrong_live_out",
                      "late_random_draw", "late_error", "other_thread_write",
                      "missed_exposure", "no_execute"),
    [](const auto& info) { return std::string(info.param); });

TEST(PlantedDefectTest, UnknownNameIsRefused) {
  EXPECT_FALSE(tjit::testing::SetPlantedDefect("no_such_defect"));
}

}  // namespace
}  // namespace tjit::differential

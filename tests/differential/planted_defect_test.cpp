// The mutation check: defects planted in the recorder, the executor, the
// compiler and its code are found within the seeds that CI runs. A defect that
// no program shows would mean that the programs miss its subject.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "runtime/testing.h"
#include "tests/differential/ci_seeds.h"
#include "tests/differential/driver.h"

namespace tjit::differential {
namespace {

struct Planting {
  const char* defect;
  Engine engine;  // that has it
};

class PlantedDefectTest : public ::testing::TestWithParam<Planting> {};

std::uint64_t SeedsOf(Engine engine) {
  if (engine == Engine::kTier1) return kCiSeeds;
  return engine == Engine::kLlvm ? kCiLlvmSeeds : kCiInterpreterSeeds;
}

TEST_P(PlantedDefectTest, IsFound) {
  const auto [defect, engine] = GetParam();
  ASSERT_TRUE(tjit::testing::SetPlantedDefect(defect));
  tjit::testing::SetPlantedDefect("");
  DriverConfig config;
  config.last = SeedsOf(engine);
  config.engine = engine;
  config.defect = defect;
  config.timeout_seconds = 30;
  bool is_found = false;
  Summary summary = RunSeeds(config, [&](const SeedResult& result) {
    // A child may have sent another result behind the one that was found.
    is_found |= result.status == SeedResult::Status::kDiffers;
    return !is_found;
  });
  ASSERT_TRUE(is_found) << summary.ToString();
  const SeedResult& found = summary.failures.back();
  std::printf("found by seed %llu after %lld programs: %s\n",
              static_cast<unsigned long long>(found.seed),
              static_cast<long long>(summary.programs), found.detail.c_str());
}

constexpr Planting kReplayed[] = {
    {"stale_scalar", Engine::kTier1},    {"lost_alias", Engine::kTier1},
    {"wrong_live_out", Engine::kTier1},  {"late_random_draw", Engine::kTier1},
    {"late_error", Engine::kTier1},      {"other_thread_write", Engine::kTier1},
    {"missed_exposure", Engine::kTier1}, {"no_execute", Engine::kTier1},
    {"skipped_guard", Engine::kTier1},   {"lost_shift", Engine::kTier1},
    {"shared_place", Engine::kTier1},    {"stale_snapshot", Engine::kTier1},
    {"frozen_constant", Engine::kTier1}, {"wrong_trip_count", Engine::kTier1},
};
constexpr Planting kCompiled[] = {
    {"skipped_scalar_guard", Engine::kInterpreter},
    {"missed_overlap", Engine::kInterpreter},
    {"swapped_operands", Engine::kInterpreter},
    {"lost_sign", Engine::kInterpreter},
    {"wrong_common", Engine::kInterpreter},
    {"dead_write_back", Engine::kInterpreter},
    {"lost_offset", Engine::kInterpreter},
    {"stale_kernel_scalar", Engine::kInterpreter},
    {"lost_write_back", Engine::kInterpreter},
    {"early_publication", Engine::kInterpreter},
    {"wrong_tail", Engine::kLlvm},
    {"two_roundings", Engine::kLlvm},
    {"unrounded_half", Engine::kLlvm},
    {"lost_nan", Engine::kLlvm},
    {"wrong_cast", Engine::kLlvm},
};

std::string NameOf(const ::testing::TestParamInfo<Planting>& info) {
  return info.param.defect;
}
INSTANTIATE_TEST_SUITE_P(Replayed, PlantedDefectTest,
                         ::testing::ValuesIn(kReplayed), NameOf);
INSTANTIATE_TEST_SUITE_P(Compiled, PlantedDefectTest,
                         ::testing::ValuesIn(kCompiled), NameOf);

TEST(PlantedDefectTest, UnknownNameIsRefused) {
  EXPECT_FALSE(tjit::testing::SetPlantedDefect("no_such_defect"));
}

}  // namespace
}  // namespace tjit::differential

// Coverage is of what ran in compiled groups, not of what was generated.
#include "tests/differential/coverage.h"

#include <gtest/gtest.h>

#include "tests/differential/engine.h"
#include "tests/differential/generator.h"

namespace tjit::differential {
namespace {

Coverage CoverageOf(Engine engine) {
  Coverage all;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const Program program = GenerateProgram(seed);
    BeginCoverage(program);
    RunIn(engine, program);
    Merge(all, TakeCoverage());
  }
  return all;
}

TEST(CoverageTest, IsOfCompiledGroups) {
  EXPECT_TRUE(CoverageOf(Engine::kEager).empty());
  EXPECT_TRUE(CoverageOf(Engine::kTier1).empty());
  const Coverage compiled = CoverageOf(Engine::kInterpreter);
  EXPECT_GT(compiled.size(), 5u);
  EXPECT_NE(compiled.count({"add", "f32"}), 0u) << ToString(compiled);
}

TEST(CoverageTest, TextsComeBack) {
  const Coverage coverage = {
      {{"add", "f32"}, {kFunctional | kInPlace, {}}},
      {{"mul", "bf16"}, {kOut, {{kBroadcast, {"has \"no\" rows", "b"}}}}}};
  EXPECT_EQ(DecodeCoverage(EncodeCoverage(coverage)), coverage);
  EXPECT_EQ(LettersOf(kFunctional | kAliasing | kRandom), "far");
}

TEST(CoverageTest, RowsAndForms) {
  EXPECT_EQ(RowOf("aten::mul_.Tensor"), "mul");
  EXPECT_EQ(TemplateOf("aten::mul_.Tensor"), kInPlace);
  EXPECT_EQ(TemplateOf("aten::mul.out"), kOut);
  EXPECT_EQ(TemplateOf("aten::mul.Tensor"), kFunctional);
}

}  // namespace
}  // namespace tjit::differential

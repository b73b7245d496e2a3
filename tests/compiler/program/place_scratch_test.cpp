// PlaceScratch: values of a kernel whose lifetimes do not meet share memory.
// That no loop then reads what another has replaced: form_loops_test, whose
// loops run over scratch that is placed so.
#include "compiler/program/place_scratch.h"

#include <gtest/gtest.h>

#include <string>

#include "compiler/ir/ir_text.h"
#include "compiler/passes/copy_out.h"

namespace tjit {
namespace {

TEST(PlaceScratch, ValuesOfOtherLoopsShare) {
  // 0: loops 0 and 1, 1: loops 1 and 2, 2: loops 2 and 3.
  const ScratchPlaces places = PlaceScratch(
      {{{}, {0}}, {{0}, {1}}, {{1}, {2}}, {{2}, {}}}, {100, 200, 128});
  ASSERT_EQ(places.offsets.size(), 3u);
  EXPECT_EQ(places.offsets[0], places.offsets[2]);
  EXPECT_NE(places.offsets[0], places.offsets[1]);
  EXPECT_EQ(places.bytes, 256u + 128u);
}

TEST(PlaceScratch, OfOneLoopSideBySide) {
  const ScratchPlaces places = PlaceScratch({{{}, {0, 1, 2}}}, {64, 64, 1});
  EXPECT_EQ(places.bytes, 192u);
  EXPECT_TRUE(PlaceScratch({}, {}).offsets.empty());
  EXPECT_EQ(PlaceScratch({{{}, {}}}, {64}).bytes, 0u) << "nobody uses it";
}

// Each running sum is over what the one before it gave.
// Along the same dim they are one loop.
TEST(PlaceScratch, ChainOfRowOpsNeedsTwoPlaces) {
  const std::string text =
      "func f(n0) {\n  external %0: f32[n0,9]\n"
      "  %1 = cumsum f32[n0,9] %0 dims=[0]\n"
      "  %2 = cumsum f32[n0,9] %1 dims=[1]\n"
      "  %3 = cumsum f32[n0,9] %2 dims=[0]\n"
      "  %4 = cumsum f32[n0,9] %3 dims=[1]\n"
      "  %5 = cumsum f32[n0,9] %4 dims=[0]\n"
      "  return %5\n}\n";
  ir::Function function;
  std::string error;
  ASSERT_TRUE(ir::Parse(text, &function, &error)) << error;
  function = CopyOut(function);
  LoopPlan plan;
  ASSERT_EQ(FormLoops(function, &plan), "");
  ASSERT_EQ(plan.scratch.size(), 4u) << Print(function, plan);
  const std::vector<PlanStep> uses = ScratchUses(function, plan);
  ASSERT_EQ(uses.size(), plan.loops.size());
  EXPECT_EQ(PlaceScratch(uses, {640, 640, 640, 640}).bytes, 2 * 640u);
}

}  // namespace
}  // namespace tjit

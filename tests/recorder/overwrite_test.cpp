// OverwritesAll: which steps fill a storage whatever was in it.
#include "recorder/overwrite.h"

#include <gtest/gtest.h>

#include "recorder/schema_key.h"
#include "tests/recorder/path_builder.h"

namespace tjit {
namespace {

ArgRecord Matrix(std::int32_t slot, std::int64_t rows, std::int64_t columns) {
  ArgRecord arg;
  arg.slot = slot;
  arg.geometry = F32({rows, columns});
  return arg;
}

StepRecord Step(const char* op, std::int32_t from = 1) {
  StepRecord step;
  step.op = InternOp(op);
  step.args = {Matrix(0, 3, 5), Matrix(from, 3, 5)};
  step.args[0].written = true;
  return step;
}

bool Fills(const StepRecord& step, std::uint64_t bytes = 60) {
  return OverwritesAll(step, step.args[0], bytes);
}

TEST(Overwrite, FillsTheWholeStorage) {
  EXPECT_TRUE(Fills(Step("aten::copy_")));
  EXPECT_TRUE(Fills(Step("aten::fill_.Scalar")));
  EXPECT_TRUE(Fills(Step("aten::zero_")));
  StepRecord transposed = Step("aten::copy_");
  transposed.args[0].geometry.Own().strides[0] = 1;
  transposed.args[0].geometry.Own().strides[1] = 3;
  EXPECT_TRUE(Fills(transposed));
}

TEST(Overwrite, ReadsOrLeavesSome) {
  EXPECT_FALSE(Fills(Step("aten::add_.Tensor")));
  EXPECT_FALSE(Fills(Step("aten::copy_", /*from=*/0))) << "reads it";
  EXPECT_FALSE(Fills(Step("aten::copy_"), 64)) << "a byte stays";
  StepRecord apart = Step("aten::copy_");
  apart.args[0].geometry.Own().strides[0] = 6;
  EXPECT_FALSE(Fills(apart, 68)) << "gaps stay";
  StepRecord behind = Step("aten::copy_");
  behind.args[0].geometry.Own().offset = 1;
  EXPECT_FALSE(Fills(behind));
  const StepRecord step = Step("aten::copy_");
  EXPECT_FALSE(OverwritesAll(step, step.args[1], 60)) << "only read";
}

}  // namespace
}  // namespace tjit

// TJIT_ASSERT as users' builds have it.
#undef TJIT_ASSERTS
#include <gtest/gtest.h>

#include "support/assert.h"

namespace tjit {
namespace {

TEST(AssertOffTest, NothingIsEvaluated) {
  int times = 0;
  TJIT_ASSERT(++times < 0, "times ", ++times);
  EXPECT_EQ(times, 0);
}

}  // namespace
}  // namespace tjit

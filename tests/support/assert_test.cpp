// TJIT_ASSERT as the presets debug, asan and tsan have it.
#ifndef TJIT_ASSERTS
#define TJIT_ASSERTS
#endif
#include "support/assert.h"

#include <gtest/gtest.h>

namespace tjit {
namespace {

TEST(AssertTest, TrueConditionIsEvaluatedOnce) {
  int times = 0;
  TJIT_ASSERT(++times == 1);
  TJIT_ASSERT(++times == 2, "times ", times);
  EXPECT_EQ(times, 2);
}

TEST(AssertDeathTest, FalseConditionNamesItsPlaceAndText) {
  EXPECT_DEATH(TJIT_ASSERT(1 + 1 == 3),
               "tjit: .*tests/support/assert_test.cpp:[0-9]+: 1 \\+ 1 == 3 "
               "does not hold\n");
  const int symbol = 4096;
  EXPECT_DEATH(TJIT_ASSERT(symbol < 4096, "symbol ", symbol),
               "assert_test.cpp:[0-9]+: symbol < 4096 does not hold: symbol "
               "4096\n");
}

constexpr int Half(int n) {
  TJIT_ASSERT(n % 2 == 0, n);
  return n / 2;
}

TEST(AssertDeathTest, StandsInConstantFunctions) {
  static_assert(Half(4) == 2);
  EXPECT_DEATH(Half(3), "n % 2 == 0 does not hold: 3\n");
}

}  // namespace
}  // namespace tjit

#include "support/pseudo_random.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace tjit {
namespace {

TEST(PseudoRandomTest, TheSequenceIsTheSameInEveryRun) {
  PseudoRandom random;
  EXPECT_EQ(random.last(), 1u);
  for (const std::uint64_t value :
       {7806831264735756412u, 9396908728118811419u, 11960119808228829710u}) {
    EXPECT_EQ(random.Next(), value);
    EXPECT_EQ(random.last(), value);
  }
}

TEST(PseudoRandomTest, ADrawIsTheUppermostBit) {
  PseudoRandom numbers(7), draws(7);
  int drawn = 0;
  for (int i = 0; i < 1000; ++i) {
    const bool is_high = numbers.Next() >= std::uint64_t{1} << 63;
    EXPECT_EQ(draws.NextBool(), is_high);
    drawn += is_high ? 1 : 0;
  }
  EXPECT_GT(drawn, 450);
  EXPECT_LT(drawn, 550);
}

}  // namespace
}  // namespace tjit

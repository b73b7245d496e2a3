// What is proved of accesses, and what is not.
#include "compiler/passes/access_facts.h"

#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace tjit {
namespace {

using ir::Geometry;
using ir::Size;

const Size n = Size::Symbol(0), m = Size::Symbol(1);

TEST(AccessFactsTest, InjectiveIsWhatNests) {
  EXPECT_TRUE(IsInjective({{n, 8}, {8, 1}, 0}));
  EXPECT_TRUE(IsInjective({{8, n}, {1, 8}, 3}));
  EXPECT_TRUE(IsInjective({{4, n, m}, {n * m, m, 1}, 0}));
  EXPECT_TRUE(IsInjective({{n, 4}, {9, 2}, 0}));
  EXPECT_TRUE(IsInjective({{1, n}, {0, 1}, 0}));
  EXPECT_TRUE(IsInjective({{}, {}, 7}));
  EXPECT_FALSE(IsInjective({{n, 8}, {0, 1}, 0}));
  EXPECT_FALSE(IsInjective({{n, 8}, {7, 1}, 0}));
  EXPECT_FALSE(IsInjective({{n, m}, {8, 1}, 0}));
}

TEST(AccessFactsTest, DisjointIsBesideOrInOtherColumns) {
  EXPECT_TRUE(AreDisjoint({{n}, {1}, 0}, {{n}, {1}, n}));
  EXPECT_TRUE(AreDisjoint({{n}, {1}, n}, {{n}, {1}, 0}));
  EXPECT_TRUE(AreDisjoint({{n}, {2}, 0}, {{n}, {2}, 1}));
  EXPECT_TRUE(AreDisjoint({{n, m}, {m * Size(4), 1}, 0},
                          {{n, m}, {m * Size(4), 1}, m}));
  EXPECT_FALSE(AreDisjoint({{n}, {1}, 0}, {{n}, {1}, 1}));
  EXPECT_FALSE(AreDisjoint({{n, 4}, {8, 1}, 0}, {{n, 4}, {8, 1}, 3}));
  EXPECT_FALSE(AreDisjoint({{n, 4}, {8, 1}, 6}, {{n, 2}, {8, 1}, 0}));
}

std::vector<std::int64_t> Places(const Geometry& g) {
  std::vector<std::int64_t> places = {g.offset.constant()};
  for (std::size_t d = 0; d < g.sizes.size(); ++d) {
    std::vector<std::int64_t> next;
    for (const std::int64_t at : places) {
      for (std::int64_t i = 0; i < g.sizes[d].constant(); ++i) {
        next.push_back(at + i * g.strides[d].constant());
      }
    }
    places = next;
  }
  return places;
}

// The parts of a grid that is rolled in two dims.
TEST(AccessFactsTest, QuartersOfAGridAreDisjoint) {
  const Geometry quarters[] = {{{3, 4}, {10, 1}, 0},
                               {{3, 6}, {10, 1}, 4},
                               {{7, 4}, {10, 1}, 30},
                               {{7, 6}, {10, 1}, 34}};
  for (const Geometry& a : quarters) {
    for (const Geometry& b : quarters) {
      EXPECT_EQ(AreDisjoint(a, b), &a != &b);
    }
  }
}

// Every proof holds, for small accesses with numbers.
TEST(AccessFactsTest, WhatIsProvedIsTrue) {
  std::mt19937_64 random(1);
  const auto below = [&](int limit) {
    return static_cast<std::int64_t>(random() % std::uint64_t(limit));
  };
  const auto any = [&] {
    Geometry g;
    for (std::int64_t d = below(4); d > 0; --d) {
      g.sizes.emplace_back(below(4));
      g.strides.emplace_back(below(7));
    }
    g.offset = below(8);
    return g;
  };
  int injective = 0, disjoint = 0;
  for (int i = 0; i < 20000; ++i) {
    const Geometry a = any(), b = any();
    const std::vector<std::int64_t> places = Places(a);
    std::set<std::int64_t> distinct(places.begin(), places.end());
    if (IsInjective(a)) {
      ++injective;
      ASSERT_EQ(distinct.size(), places.size());
    }
    if (AreDisjoint(a, b)) {
      ++disjoint;
      for (const std::int64_t at : Places(b)) ASSERT_FALSE(distinct.count(at));
    }
  }
  EXPECT_GT(injective, 1000);
  EXPECT_GT(disjoint, 1000);
}

}  // namespace
}  // namespace tjit

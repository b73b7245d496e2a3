#include "recorder/token_ring.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace tjit {
namespace {

// Long runs of equal tokens, so that there is much to compare.
std::vector<std::uint64_t> Runs(std::size_t length, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<std::uint64_t> tokens;
  std::vector<std::uint64_t> block;
  while (tokens.size() < length) {
    if (block.empty() || rng() % 4 == 0) {
      block.resize(1 + rng() % 200);
      for (auto& token : block) token = rng() % 3;
    }
    tokens.insert(tokens.end(), block.begin(), block.end());
  }
  tokens.resize(length);
  return tokens;
}

TEST(TokenRingTest, HeldForAgreesWithComparingEveryToken) {
  const auto tokens = Runs(3000, 1);
  std::mt19937_64 rng(2);
  TokenRing ring;
  std::uint64_t longest = 0;
  for (std::uint64_t n = 1; n <= tokens.size(); ++n) {
    ring.Push(tokens[n - 1]);
    const std::uint64_t period = 1 + rng() % n;
    const std::uint64_t limit = n - period;
    std::uint64_t expected = 0;
    while (expected < limit &&
           tokens[n - 1 - expected] == tokens[n - 1 - expected - period]) {
      ++expected;
    }
    ASSERT_EQ(ring.HeldFor(period, limit), expected) << n;
    longest = std::max(longest, expected);
  }
  EXPECT_GT(longest, 64u);
}

TEST(TokenRingTest, CommonPrefixAgreesWithComparingEveryToken) {
  const auto tokens = Runs(3000, 3);
  TokenRing ring;
  for (const std::uint64_t token : tokens) ring.Push(token);
  std::mt19937_64 rng(4);
  for (int round = 0; round < 3000; ++round) {
    const std::uint64_t a = rng() % tokens.size(), b = rng() % tokens.size();
    const std::uint64_t limit = tokens.size() - std::max(a, b);
    std::uint64_t expected = 0;
    while (expected < limit && tokens[a + expected] == tokens[b + expected]) {
      ++expected;
    }
    ASSERT_EQ(ring.CommonPrefix(a, b, limit), expected);
  }
}

TEST(TokenRingTest, AreAlikeAgreesWithComparingEveryToken) {
  const auto loose = Runs(3000, 6);
  std::mt19937_64 rng(7);
  TokenRing ring;
  std::vector<StreamToken> tokens;
  for (const std::uint64_t token : loose) {
    const bool is_drawn = rng() % 8 == 0;
    tokens.emplace_back(is_drawn ? 100 + rng() % 2 : token, token);
    ring.Push(tokens.back());
  }
  const auto are_alike = [&](std::uint64_t a, std::uint64_t b) {
    return tokens[a].exact == tokens[b].exact ||
           tokens[a].loose == tokens[b].loose;
  };
  int alike = 0, differ = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::uint64_t a = rng() % tokens.size(), b = rng() % tokens.size();
    ASSERT_EQ(ring.AreAlike(a, b), are_alike(a, b));
    ASSERT_EQ(ring.IsAlike(a, tokens[b]), are_alike(a, b));
    const std::uint64_t length =
        std::min<std::uint64_t>(1 + rng() % 10, tokens.size() - std::max(a, b));
    bool expected = true;
    for (std::uint64_t i = 0; i < length; ++i) {
      expected = expected && are_alike(a + i, b + i);
    }
    ASSERT_EQ(ring.AreAlike(a, b, length), expected);
    ++(expected ? alike : differ);
  }
  EXPECT_GT(alike, 100);
  EXPECT_GT(differ, 100);
}

TEST(TokenRingTest, WholeRingCanBeCompared) {
  const auto half = Runs(TokenRing::kSize / 2, 5);
  TokenRing ring;
  for (int copy = 0; copy < 5; ++copy) {
    for (const std::uint64_t token : half) ring.Push(token);
  }
  EXPECT_EQ(ring.HeldFor(half.size(), half.size()), half.size());
}

TEST(TokenRingTest, FingerprintIsThatOfTheLastEightTokens) {
  TokenRing a, b;
  for (const std::uint64_t token : {9, 8, 7, 6}) a.Push(token);
  for (const std::uint64_t token : {1, 2, 3, 4, 5, 6, 7, 8}) {
    a.Push(token);
    b.Push(token);
  }
  EXPECT_EQ(a.Fingerprint(), b.Fingerprint());
  a.Push(1);
  b.Push(2);
  EXPECT_NE(a.Fingerprint(), b.Fingerprint());
}

}  // namespace
}  // namespace tjit

#include "recorder/branch_finder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/recorder/counting_new.h"

namespace tjit {
namespace {

using Next = BranchFinder::Next;

// Feeds letters as kinds; answers for each what was known after it.
std::vector<Next> Feed(BranchFinder* finder, const std::string& word) {
  std::vector<Next> known;
  for (const char c : word) {
    known.push_back(finder->Observe(static_cast<std::uint64_t>(c), 0));
  }
  return known;
}

std::size_t Count(const std::vector<Next>& known, Next what) {
  std::size_t count = 0;
  for (const Next next : known) count += next == what;
  return count;
}

// The words in an order that is drawn.
std::string Shuffled(const std::vector<std::string>& words, int times) {
  std::mt19937_64 rng(1);
  std::string all;
  for (int i = 0; i < times; ++i) all += words[rng() % words.size()];
  return all;
}

TEST(BranchFinderTest, Branch_pointsAreTheEndsOfVariants) {
  BranchFinder finder;
  const std::vector<std::string> variants = {"abcdefg", "hijkl", "mnopqrst"};
  Feed(&finder, Shuffled(variants, 300));
  std::mt19937_64 rng(2);
  for (int i = 0; i < 100; ++i) {
    const std::string& word = variants[rng() % 3];
    const std::vector<Next> known = Feed(&finder, word);
    for (std::size_t k = 0; k + 1 < word.size(); ++k) {
      EXPECT_EQ(known[k], Next::kSure) << word << k;
    }
    EXPECT_EQ(known.back(), Next::kBranchPoint) << word;
  }
}

TEST(BranchFinderTest, ALoopOfVaryingTripCountBranch_pointsAfterItsBody) {
  BranchFinder finder;
  std::mt19937_64 rng(1);
  const auto step = [&] {
    std::string word = "pqrs";
    for (std::uint64_t n = 1 + rng() % 6; n != 0; --n) word += "abcde";
    return word + "xyz";
  };
  for (int i = 0; i < 200; ++i) Feed(&finder, step());
  for (int i = 0; i < 50; ++i) {
    const std::string word = step();
    const std::vector<Next> known = Feed(&finder, word);
    for (std::size_t k = 0; k < word.size(); ++k) {
      EXPECT_EQ(known[k], word[k] == 'e' ? Next::kBranchPoint : Next::kSure)
          << word << k;
    }
  }
}

TEST(BranchFinderTest, OneInsertedOpMakesNoBranchPoint) {
  BranchFinder finder;
  std::string loop;
  for (int i = 0; i < 25; ++i) loop += "abcdefgh";
  Feed(&finder, loop + "z" + loop);
  EXPECT_EQ(Count(Feed(&finder, "abcdefgh"), Next::kBranchPoint), 0u);
}

// After 512 ops without any, where fewest values are alive.
TEST(BranchFinderTest, ALoopWithoutBranchPointIsGivenOne) {
  BranchFinder finder;
  const std::string body = "abcdefgh";
  const auto feed = [&](int times) {
    std::string branch_points;
    for (int i = 0; i < times; ++i) {
      for (const char c : body) {
        const std::int64_t live = c == 'd' ? 3 : 5;  // before it
        const Next next = finder.Observe(static_cast<std::uint64_t>(c), live);
        if (next == Next::kBranchPoint) branch_points += c;
      }
    }
    return branch_points;
  };
  EXPECT_EQ(feed(60), "");
  feed(20);
  EXPECT_EQ(feed(5), "ccccc");
}

TEST(BranchFinderTest, AVeryShortLoopIsGivenNone) {
  BranchFinder finder;
  EXPECT_EQ(Count(Feed(&finder, std::string(5000, 'a')), Next::kBranchPoint),
            0u);
}

TEST(BranchFinderTest, AStreamThatNeverRepeatsHasNoBranchPoint) {
  BranchFinder finder;
  std::mt19937_64 rng(1);
  int branch_points = 0;
  for (int i = 0; i < 200000; ++i) {
    branch_points += finder.Observe(rng() % 60, 0) == Next::kBranchPoint;
  }
  EXPECT_LT(branch_points, 20);
}

// Letters that nobody has seen, as new sizes make.
std::string NewLetters(BranchFinder* finder, std::uint64_t* next) {
  std::string known;
  for (int i = 0; i < 12; ++i) {
    known += finder->Observe(++*next << 8, 0) == Next::kUnknown ? '?' : '!';
  }
  return known;
}

// `word` behind such letters, so many times.
void FeedBehindNew(BranchFinder* finder, const std::string& word, int times,
                   std::uint64_t* next) {
  for (int i = 0; i < times; ++i) {
    NewLetters(finder, next);
    Feed(finder, word);
  }
}

// What is behind them begins as soon as the last ops are known again.
TEST(BranchFinderTest, BehindNewSizesARegionBegins) {
  BranchFinder finder;
  std::uint64_t letter = 0;
  const std::string word = "abcdefghijkl";
  FeedBehindNew(&finder, word, 8, &letter);
  EXPECT_EQ(NewLetters(&finder, &letter), std::string(12, '?'));
  const std::vector<Next> known = Feed(&finder, word);
  for (std::size_t i = 0; i < word.size(); ++i) {
    EXPECT_EQ(known[i], i < 3                 ? Next::kUnknown
                        : i == 3              ? Next::kBegin
                        : i + 1 < word.size() ? Next::kSure
                                              : Next::kBranchPoint)
        << i;
  }
}

// A loop over parameters of equal size, in an optimizer, has the same length
// each time, which the last four ops do not tell.
TEST(BranchFinderTest, ALoopOfOneLengthIsNoBranch) {
  BranchFinder finder;
  std::uint64_t letter = 0;
  const std::string word = "uvwxyzabcdeabcdeabcdepqrs";
  FeedBehindNew(&finder, word, 40, &letter);
  NewLetters(&finder, &letter);
  std::vector<Next> known = Feed(&finder, word);
  EXPECT_EQ(known.back(), Next::kBranchPoint);
  known.pop_back();
  // The first end of the loop's body comes before sixteen ops are known.
  EXPECT_LE(Count(known, Next::kBranchPoint), 1u);
}

TEST(BranchFinderTest, WhatComesAfterThousandsIsNotUsual) {
  BranchFinder finder;
  std::uint64_t letter = 0;
  for (const int between : {10, 400}) {
    for (int i = 0; i < 40; ++i) {
      for (int k = 0; k < between; ++k) NewLetters(&finder, &letter);
      Feed(&finder, "abcdefgh");
    }
    EXPECT_EQ(finder.is_usual(), between == 10);
  }
}

TEST(BranchFinderTest, AllocatesNothing) {
  BranchFinder finder;
  std::mt19937_64 rng(1);
  const std::int64_t before = AllocationCount();
  for (int i = 0; i < 100000; ++i) finder.Observe(rng() % 7, 0);
  EXPECT_EQ(AllocationCount(), before);
}

}  // namespace
}  // namespace tjit

// Partition: which steps become groups, and that the order it gives computes
// what the order of the program does.
#include "compiler/lower/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tjit {
namespace {

PartitionStep Lowered(std::vector<std::int32_t> reads,
                      std::vector<std::int32_t> writes,
                      std::int64_t elements = 8) {
  return {true, false, elements, std::move(reads), std::move(writes)};
}
PartitionStep Foreign(std::vector<std::int32_t> reads,
                      std::vector<std::int32_t> writes) {
  return {false, false, 8, std::move(reads), std::move(writes)};
}

// "0 {1 2}": single steps as they are, groups in braces.
std::string Text(const std::vector<PartitionItem>& items) {
  std::string text;
  for (const PartitionItem& item : items) {
    std::string steps;
    for (const std::uint32_t s : item.steps) {
      absl::StrAppend(&steps, steps.empty() ? "" : " ", s);
    }
    if (item.is_group) steps = absl::StrCat("{", steps, "}");
    absl::StrAppend(&text, text.empty() ? "" : " ", steps);
  }
  return text;
}

TEST(Partition, NothingGivesNothing) { EXPECT_EQ(Text(Partition({})), ""); }

TEST(Partition, AChainIsOneGroup) {
  EXPECT_EQ(Text(Partition({Lowered({0, 1}, {2}), Lowered({2}, {3}),
                            Lowered({3, 0}, {4})})),
            "{0 1 2}");
}

TEST(Partition, OneStepStaysALibraryCallUnlessItIsOverLists) {
  EXPECT_EQ(Text(Partition({Lowered({0}, {1})})), "0");
  PartitionStep list = Lowered({0}, {0});
  list.is_worth_alone = true;
  EXPECT_EQ(Text(Partition({list})), "{0}");
}

TEST(Partition, AnIndependentCallDoesNotEndAGroup) {
  // a = x + y; m = mm(x, y); b = a * m
  EXPECT_EQ(Text(Partition({Lowered({0, 1}, {2}), Foreign({0, 1}, {3}),
                            Lowered({2, 3}, {4})})),
            "1 {0 2}");
}

TEST(Partition, ACallThatReadsTheGroupEndsIt) {
  // a = x + y; b = a * x; m = mm(b); c = m + a; d = c * c
  EXPECT_EQ(Text(Partition({Lowered({0, 1}, {2}), Lowered({2, 0}, {3}),
                            Foreign({3}, {4}), Lowered({4, 2}, {5}),
                            Lowered({5}, {6})})),
            "{0 1} 2 {3 4}");
}

// Else the gradient of a matrix waits behind that of its operand, and what both
// read is kept meanwhile.
TEST(Partition, CallsBetweenGroupsKeepTheirOrder) {
  EXPECT_EQ(Text(Partition({Lowered({0}, {1}), Lowered({1}, {2}),
                            Foreign({2, 3}, {4}), Foreign({2, 5}, {6}),
                            Lowered({6}, {7}), Lowered({7}, {8})})),
            "{0 1} 2 3 {4 5}");
}

TEST(Partition, AStepGoesBackToTheGroupThatItSharesASlotWith) {
  // The last step needs nothing of the call.
  EXPECT_EQ(Text(Partition({Lowered({0}, {1}), Lowered({1}, {2}),
                            Foreign({2}, {3}), Lowered({1}, {4})})),
            "{0 1 3} 2");
}

TEST(Partition, AWriteStaysBehindTheReadersOfTheOldContent) {
  // m = mm(x); x += y; z = x * y
  EXPECT_EQ(Text(Partition({Foreign({0}, {2}), Lowered({0, 1}, {0}),
                            Lowered({0, 1}, {3})})),
            "0 {1 2}");
  // a = y + y; x = a; m = mm(x); x = a again: behind the call.
  EXPECT_EQ(Text(Partition({Lowered({1}, {2}), Lowered({2}, {0}),
                            Foreign({0}, {3}), Lowered({2}, {0}),
                            Lowered({0}, {4})})),
            "{0 1} 2 {3 4}");
}

TEST(Partition, UnrelatedStepsOverEquallyManyElementsAreOneGroup) {
  EXPECT_EQ(Text(Partition({Lowered({0}, {1}, 8), Lowered({2}, {3}, 8),
                            Lowered({4}, {5}, 9)})),
            "{0 1} 2");
}

TEST(Partition, AGroupHasALimit) {
  std::vector<PartitionStep> steps;
  for (int i = 0; i < 7; ++i) steps.push_back(Lowered({i}, {i + 1}));
  EXPECT_EQ(Text(Partition(steps, {.min_steps = 2, .max_steps = 3})),
            "{0 1 2} {3 4 5} 6");
}

// Slots hold numbers; each step makes new ones of what it reads, and a step in
// place (its slot is in `reads` too) mixes the old content in.
std::vector<std::uint64_t> Execute(const std::vector<PartitionStep>& steps,
                                   const std::vector<std::uint32_t>& order,
                                   std::size_t slots) {
  std::vector<std::uint64_t> memory(slots);
  for (std::size_t s = 0; s < slots; ++s) memory[s] = s * 0x9e3779b97f4a7c15;
  for (const std::uint32_t i : order) {
    std::uint64_t value = i + 1;
    for (const std::int32_t slot : steps[i].reads) {
      if (slot >= 0) value = value * 6364136223846793005u + memory[slot];
    }
    for (const std::int32_t slot : steps[i].writes) {
      if (slot >= 0) memory[slot] = ++value;
    }
  }
  return memory;
}

TEST(Partition, ItsOrderComputesWhatTheProgramDoes) {
  std::mt19937 random(5);
  const auto below = [&](std::uint32_t n) {
    return static_cast<std::int32_t>(random() % n);
  };
  std::int64_t moved = 0, grouped = 0;
  for (int program = 0; program < 3000; ++program) {
    const std::uint32_t slots = 3 + below(10);
    std::vector<PartitionStep> steps(1 + below(40));
    for (PartitionStep& step : steps) {
      step.is_lowerable = below(3) != 0;
      step.elements = below(3);
      for (int n = below(4); n > 0; --n) step.reads.push_back(below(slots) - 1);
      for (int n = 1 + below(2); n > 0; --n) step.writes.push_back(below(slots));
      if (below(3) == 0) step.reads.push_back(step.writes[0]);
    }
    const std::vector<PartitionItem> items =
        Partition(steps, {.min_steps = 2, .max_steps = 6});
    std::vector<std::uint32_t> plain(steps.size()), order;
    for (std::uint32_t i = 0; i < steps.size(); ++i) plain[i] = i;
    for (const PartitionItem& item : items) {
      ASSERT_TRUE(std::is_sorted(item.steps.begin(), item.steps.end()));
      ASSERT_EQ(item.is_group, item.steps.size() > 1);
      ASSERT_LE(item.steps.size(), 6u);
      for (const std::uint32_t s : item.steps) {
        ASSERT_TRUE(!item.is_group || steps[s].is_lowerable);
        order.push_back(s);
      }
      grouped += item.is_group ? 1 : 0;
    }
    moved += order != plain ? 1 : 0;
    std::vector<std::uint32_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(sorted, plain) << "program " << program;
    ASSERT_EQ(Execute(steps, order, slots), Execute(steps, plain, slots))
        << "program " << program << ": " << Text(items);
  }
  EXPECT_GT(moved, 300);
  EXPECT_GT(grouped, 3000);
}

}  // namespace
}  // namespace tjit

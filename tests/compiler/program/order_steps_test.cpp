// OrderSteps: which steps wait, and that programs compute the same in the new
// order.
#include "compiler/program/step_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>

namespace tjit {
namespace {

using ::testing::ElementsAre;

PlanSlot External() { return {4096, -1, true}; }
PlanSlot Kept(int born) { return {4096, born, true}; }
PlanSlot Dropped(int born) { return {4096, born, false}; }

TEST(OrderSteps, ProductsOfInputsWaitForTheirReaders) {
  // s1, s2, s3 are made of s0; each is added to what came before.
  const std::vector<PlanStep> steps = {{{0}, {1}},    {{0}, {2}},
                                       {{0}, {3}},    {{0, 1}, {4}},
                                       {{4, 2}, {5}}, {{5, 3}, {6}}};
  const std::vector<PlanSlot> slots = {External(), Dropped(0), Dropped(1),
                                       Dropped(2), Dropped(3), Dropped(4),
                                       Kept(5)};
  const std::vector<std::uint32_t> order = OrderSteps(steps, slots);
  EXPECT_THAT(order, ElementsAre(0, 3, 1, 4, 2, 5));
  std::vector<PlanStep> ordered;
  for (const std::uint32_t i : order) ordered.push_back(steps[i]);
  EXPECT_EQ(PlanMemory(steps, slots, kMinHostedBytes * 2).arena_bytes,
            4 * 4096u);
  EXPECT_EQ(PlanMemory(ordered, slots, kMinHostedBytes * 2).arena_bytes,
            3 * 4096u);
}

TEST(OrderSteps, WritesOfWhatItReadsPullItForward) {
  // Step 0 reads s0, which step 1 changes.
  const std::vector<PlanStep> steps = {
      {{0}, {1}}, {{0}, {0}}, {{0}, {2}}, {{1, 2}, {3}}};
  EXPECT_THAT(OrderSteps(steps, {External(), Dropped(0), Dropped(2), Kept(3)}),
              ElementsAre(0, 1, 2, 3));
}

TEST(OrderSteps, SurvivorsAndReadersOfTemporariesStay) {
  const std::vector<PlanStep> steps = {
      {{0}, {1}}, {{1}, {2}}, {{0}, {3}}, {{0}, {4}}, {{2, 4}, {5}}};
  EXPECT_THAT(OrderSteps(steps, {External(), Dropped(0), Dropped(1), Kept(2),
                                 Dropped(3), Kept(4)}),
              ElementsAre(0, 1, 2, 3, 4));
}

// Programs of steps that read, fill and change slots, in part too.
struct Program {
  std::vector<PlanStep> steps;
  std::vector<PlanSlot> slots;
};

Program RandomProgram(std::mt19937* rng) {
  Program p;
  const auto pick = [&](std::size_t n) { return (*rng)() % n; };
  for (std::size_t s = 0; s < 1 + pick(4); ++s) {
    p.slots.push_back({8, -1, pick(3) != 0});
  }
  const std::size_t steps = 1 + pick(40);
  for (std::size_t i = 0; i < steps; ++i) {
    PlanStep step;
    for (std::size_t r = pick(3); r > 0; --r) {
      step.reads.push_back(static_cast<std::int32_t>(pick(p.slots.size())));
    }
    if (pick(4) == 0) {
      const auto s = static_cast<std::int32_t>(pick(p.slots.size()));
      step.reads.push_back(s);
      step.writes.push_back(s);
    } else {
      step.writes.push_back(static_cast<std::int32_t>(p.slots.size()));
      p.slots.push_back({8, static_cast<int>(i), pick(3) == 0});
    }
    if (pick(5) == 0) step.reads.push_back(-1);
    p.steps.push_back(step);
  }
  return p;
}

std::vector<std::uint64_t> Execute(const Program& p,
                                   const std::vector<std::uint32_t>& order) {
  std::vector<std::uint64_t> memory(p.slots.size());
  for (std::size_t s = 0; s < memory.size(); ++s) memory[s] = 7 * s;
  for (const std::uint32_t i : order) {
    std::uint64_t mix = 0x9e3779b97f4a7c15u * (i + 1);
    for (const std::int32_t s : p.steps[i].reads) {
      if (s >= 0) mix = (mix ^ memory[s]) * 0xbf58476d1ce4e5b9u;
    }
    for (const std::int32_t s : p.steps[i].writes) memory[s] = mix;
  }
  return memory;
}

TEST(OrderSteps, RandomProgramsComputeTheSame) {
  std::mt19937 rng(7);
  int changed = 0;
  for (int round = 0; round < 3000; ++round) {
    const Program p = RandomProgram(&rng);
    std::vector<std::uint32_t> as_given(p.steps.size());
    for (std::uint32_t i = 0; i < as_given.size(); ++i) as_given[i] = i;
    std::vector<std::uint32_t> order = OrderSteps(p.steps, p.slots);
    ASSERT_EQ(Execute(p, order), Execute(p, as_given)) << "round " << round;
    changed += order != as_given;
    std::sort(order.begin(), order.end());
    ASSERT_EQ(order, as_given) << "each step once";
  }
  EXPECT_GT(changed, 500);
}

}  // namespace
}  // namespace tjit

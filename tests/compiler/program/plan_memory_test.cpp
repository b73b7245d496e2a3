// PlanMemory: which steps run, and that no two values which live at the same
// time share a byte of the arena.
#include "compiler/program/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tjit {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

PlanSlot External(std::uint64_t bytes) { return {bytes, -1, true}; }
PlanSlot Kept(std::uint64_t bytes, int born) { return {bytes, born, true}; }
PlanSlot Dropped(std::uint64_t bytes, int born) { return {bytes, born, false}; }

std::map<int, std::uint64_t> Offsets(const MemoryPlan& plan) {
  std::map<int, std::uint64_t> offsets;
  for (const Placement& p : plan.placements) offsets[p.slot] = p.offset;
  return offsets;
}

TEST(PlanMemory, EmptySegmentNeedsNothing) {
  const MemoryPlan plan = PlanMemory({}, {});
  EXPECT_THAT(plan.needed, IsEmpty());
  EXPECT_EQ(plan.arena_bytes, 0u);
}

TEST(PlanMemory, ChainKeepsOnlyTwoTemporaries) {
  // s0 -> s1 -> s2 -> s3 -> s4, and only s4 is owned afterwards.
  const MemoryPlan plan =
      PlanMemory({{{0}, {1}}, {{1}, {2}}, {{2}, {3}}, {{3}, {4}}},
                 {External(256), Dropped(256, 0), Dropped(256, 1),
                  Dropped(256, 2), Kept(256, 3)});
  EXPECT_THAT(plan.needed, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(plan.arena_bytes, 512u);
  const auto offsets = Offsets(plan);
  EXPECT_EQ(offsets.size(), 3u);
  EXPECT_EQ(offsets.count(4), 0u) << "a live value never lies in the arena";
  EXPECT_NE(offsets.at(1), offsets.at(2));
  EXPECT_EQ(offsets.at(1), offsets.at(3)) << "reused after its last reader";
}

TEST(PlanMemory, ScratchLiesWhereNoValueIsNeeded) {
  // s0 -> s1 -> s2 -> s3 -> s4.
  const std::vector<PlanSlot> slots = {External(256), Dropped(256, 0),
                                       Dropped(256, 1), Dropped(64, 2),
                                       Kept(64, 3)};
  std::vector<PlanStep> steps = {
      {{0}, {1}}, {{1}, {2}}, {{2}, {3}}, {{3}, {4}}};
  EXPECT_THAT(PlanMemory(steps, slots).scratch, IsEmpty());
  steps[3].scratch = {192};
  steps[0].scratch = {64, 128};
  const MemoryPlan plan = PlanMemory(steps, slots);
  const auto offsets = Offsets(plan);
  EXPECT_EQ(plan.arena_bytes, 512u);
  ASSERT_EQ(plan.scratch.size(), 3u);
  EXPECT_EQ(plan.scratch[0].step, 0u);
  EXPECT_EQ(plan.scratch[0].bytes, 128u) << "the largest first";
  EXPECT_EQ(plan.scratch[0].offset, offsets.at(2));
  EXPECT_EQ(plan.scratch[0].host, -1);
  EXPECT_EQ(plan.scratch[1].step, 0u);
  EXPECT_EQ(plan.scratch[1].bytes, 64u);
  EXPECT_EQ(plan.scratch[1].offset, offsets.at(2) + 128);
  EXPECT_EQ(plan.scratch[2].step, 3u);
  EXPECT_EQ(plan.scratch[2].bytes, 192u);
  EXPECT_NE(plan.scratch[2].offset, offsets.at(3));
  steps[1].scratch = {1};
  EXPECT_EQ(PlanMemory(steps, slots).arena_bytes, 576u) << "both are needed";
}

// Behind the values the scratch of step 0 has to go above s1, which lies above
// s2, in whose place it has no room: 576 bytes.
TEST(PlanMemory, ScratchIsPlacedAmongValuesWhereThatIsLess) {
  std::vector<PlanStep> steps = {{{0}, {1}}, {{1}, {2}}, {{1, 2}, {3}}};
  steps[0].scratch = {320};
  steps[1].scratch = {256};
  const MemoryPlan plan = PlanMemory(
      steps, {External(64), Dropped(64, 0), Dropped(192, 1), Kept(64, 2)});
  EXPECT_EQ(plan.arena_bytes, 64u + 192 + 256) << "all of step 1";
}

TEST(PlanMemory, ScratchLiesInValuesThatAreNotBornYet) {
  std::vector<PlanStep> steps = {{{0}, {1}}, {{1}, {2}}};
  steps[0].scratch = {kMinHostedBytes};
  const MemoryPlan plan = PlanMemory(
      steps, {External(64), Kept(64, 0), Kept(2 * kMinHostedBytes, 1)});
  EXPECT_EQ(plan.arena_bytes, 0u);
  ASSERT_EQ(plan.scratch.size(), 1u);
  EXPECT_EQ(plan.scratch[0].host, 2);
}

TEST(PlanMemory, StepWhoseResultNobodyWantsDoesNotRun) {
  const MemoryPlan plan =
      PlanMemory({{{0}, {1}}, {{1}, {2}}, {{0}, {3}}},
                 {External(64), Dropped(64, 0), Dropped(64, 1), Kept(64, 2)});
  EXPECT_THAT(plan.needed, ElementsAre(2));
  EXPECT_THAT(plan.placements, IsEmpty());
  EXPECT_EQ(plan.arena_bytes, 0u);
}

TEST(PlanMemory, InPlaceWriteOfExternalAlwaysRuns) {
  const MemoryPlan plan =
      PlanMemory({{{0, 1}, {0}}}, {External(64), External(64)});
  EXPECT_THAT(plan.needed, ElementsAre(0));
}

TEST(PlanMemory, ExternalThatWasDroppedIsWrittenOnlyForItsReaders) {
  // s0 was dropped by the program while pending: step 0 writes it for step 1,
  // step 2 writes it for nobody.
  std::vector<PlanSlot> slots = {Dropped(64, -1), External(64), Kept(64, 1)};
  const MemoryPlan plan =
      PlanMemory({{{0, 1}, {0}}, {{0}, {2}}, {{0, 1}, {0}}}, slots);
  EXPECT_THAT(plan.needed, ElementsAre(0, 1));
  EXPECT_THAT(plan.placements, IsEmpty()) << "externals keep their address";
}

TEST(PlanMemory, EarlierPartialWritesStayNeeded) {
  // s1 is born in step 0, a part of it overwritten in 1 (which does not read
  // it), read in 2.
  const MemoryPlan plan =
      PlanMemory({{{0}, {1}}, {{0}, {1}}, {{1}, {2}}, {{0}, {1}}},
                 {External(64), Dropped(64, 0), Kept(64, 2)});
  EXPECT_THAT(plan.needed, ElementsAre(0, 1, 2));
}

TEST(PlanMemory, UnreadOutputOfNeededStepHasItsOwnRange) {
  // max_pool2d: values are wanted, indices are not, both are written at once.
  const MemoryPlan plan =
      PlanMemory({{{0}, {1, 2}}, {{1}, {3}}},
                 {External(640), Dropped(64, 0), Dropped(128, 0), Kept(64, 1)});
  const auto offsets = Offsets(plan);
  ASSERT_EQ(offsets.size(), 2u);
  EXPECT_EQ(plan.arena_bytes, 192u);
}

TEST(PlanMemory, RangeOfADeadValueIsReusedBesideLivingOnes) {
  // s1 dies in step 1; s2 and s4 live on while s5 does.
  const std::vector<PlanSlot> slots = {
      External(64),    Dropped(512, 0), Dropped(448, 0), Dropped(384, 0),
      Dropped(128, 0), Dropped(400, 2), Kept(64, 3)};
  const MemoryPlan plan = PlanMemory(
      {{{0}, {1, 2, 3, 4}}, {{1, 3}, {6}}, {{0}, {5}}, {{2, 4, 5}, {6}}},
      slots);
  const auto offsets = Offsets(plan);
  EXPECT_EQ(offsets.at(1), 0u);
  EXPECT_EQ(offsets.at(2), 512u);
  EXPECT_EQ(offsets.at(5), 0u) << "below s2, in the range that s1 left";
  EXPECT_EQ(plan.arena_bytes, 512u + 448 + 384 + 128);
}

TEST(PlanMemory, TheFullestStepIsNotTornApart) {
  // s1, the largest, is placed first by size, s3 beside it, and s4 has to go
  // behind both: s1's place is one too small for s4 and s5.
  const std::vector<PlanStep> steps = {
      {{0}, {1}}, {{1}, {2}}, {{1}, {3}}, {{3}, {4, 5}}, {{4, 5}, {6}}};
  const MemoryPlan plan = PlanMemory(
      steps, {External(64), Dropped(256, 0), Kept(64, 1), Dropped(192, 2),
              Dropped(128, 3), Dropped(192, 3), Kept(64, 4)});
  EXPECT_EQ(plan.arena_bytes, 512u) << "all that is needed in step 3";
}

// By size the arena ends with s3, by breadth with s1, and where s1 is placed
// earlier with s3 again: 832 bytes or more. Both have to be.
TEST(PlanMemory, WhatTheArenaEndsWithIsPlacedEarlier) {
  const std::vector<PlanStep> steps = {
      {{0}, {1}}, {{1}, {2}}, {{0}, {3}}, {{2}, {4}}, {{0, 3, 4}, {5}}};
  const MemoryPlan plan =
      PlanMemory(steps, {External(64), Dropped(384, 0), Dropped(256, 1),
                         Dropped(192, 2), Dropped(320, 3), Kept(384, 4)});
  EXPECT_EQ(plan.arena_bytes, 256u + 192 + 320) << "all of step 3";
}

// s7 lies in s8, which is born behind it, and is no reason for a larger arena.
TEST(PlanMemory, WhatLiesInSurvivorsIsNotCounted) {
  const std::vector<PlanStep> steps = {{{0}, {1}},    {{1}, {2}},
                                       {{1}, {3, 7}}, {{3, 7}, {4, 5}},
                                       {{4, 5}, {6}}, {{6}, {8}}};
  const MemoryPlan plan =
      PlanMemory(steps, {External(64), Dropped(256, 0), Kept(64, 1),
                         Dropped(192, 2), Dropped(128, 3), Dropped(192, 3),
                         Kept(64, 4), Dropped(8192, 2), Kept(8192, 5)});
  EXPECT_EQ(plan.arena_bytes, 512u);
}

TEST(PlanMemory, ZeroBytesAndUndefinedSlots) {
  const MemoryPlan plan =
      PlanMemory({{{0, -1}, {1, -1}}, {{1}, {2}}},
                 {External(64), Dropped(0, 0), Kept(64, 1)});
  EXPECT_THAT(plan.needed, ElementsAre(0, 1));
  ASSERT_EQ(plan.placements.size(), 1u);
  EXPECT_EQ(plan.placements[0].offset, 0u);
  EXPECT_EQ(plan.arena_bytes, 0u);
}

TEST(PlanMemory, LargeTemporariesLieInSurvivorsThatAreBornLater) {
  // s0 -> s1 -> s2 -> s3, which survives: s1 is dead when s3 is born, s2 not.
  const MemoryPlan plan = PlanMemory(
      {{{0}, {1}}, {{1}, {2}}, {{2}, {3}}},
      {External(64), Dropped(8192, 0), Dropped(8192, 1), Kept(8192, 2)});
  ASSERT_EQ(plan.placements.size(), 2u);
  EXPECT_EQ(plan.placements[0].slot, 1);
  EXPECT_EQ(plan.placements[0].host, 3);
  EXPECT_EQ(plan.placements[1].host, -1);
  EXPECT_EQ(plan.arena_bytes, 8192u);
}

TEST(PlanMemory, AHostHasRoomAndIsStillEmpty) {
  // s3 is too small, s4 was there before, s1 is read beside s5.
  const MemoryPlan plan =
      PlanMemory({{{0}, {1}}, {{1}, {2}}, {{2}, {3, 4}}, {{1, 2}, {5}}},
                 {External(64), Dropped(8192, 0), Dropped(8200, 1),
                  Kept(8191, 2), External(9000), Kept(9000, 3)});
  for (const Placement& p : plan.placements) EXPECT_EQ(p.host, -1);
  EXPECT_EQ(plan.arena_bytes, 8192u + 8256u);
}

TEST(PlanMemory, ResultsFollowOperandsInPlace) {
  // s0 -> s1 -> s2 -> s3 -> s4; s3 may not lie over s2.
  const std::vector<PlanSlot> slots = {External(256), Dropped(256, 0),
                                       Dropped(256, 1), Dropped(256, 2),
                                       Kept(256, 3)};
  std::vector<PlanStep> steps = {
      {{0}, {1}}, {{1}, {2}, {{2, 1}}}, {{2}, {3}}, {{3}, {4}, {{4, 3}}}};
  MemoryPlan plan = PlanMemory(steps, slots);
  EXPECT_EQ(Offsets(plan).at(1), Offsets(plan).at(2));
  EXPECT_NE(Offsets(plan).at(2), Offsets(plan).at(3));
  EXPECT_EQ(plan.arena_bytes, 512u);
  steps[2].in_place = {{3, 2}};
  EXPECT_EQ(PlanMemory(steps, slots).arena_bytes, 256u);
  // Large enough to be hosted: all of it in the value that survives.
  plan = PlanMemory(steps, slots, 0);
  EXPECT_EQ(plan.arena_bytes, 0u);
  for (const Placement& p : plan.placements) EXPECT_EQ(p.host, 4);
}

TEST(PlanMemory, AnOperandThatIsReadLaterKeepsItsPlace) {
  const MemoryPlan plan =
      PlanMemory({{{0}, {1}}, {{1}, {2}, {{2, 1}}}, {{1, 2}, {3}}},
                 {External(64), Dropped(64, 0), Dropped(64, 1), Kept(64, 2)});
  EXPECT_EQ(plan.arena_bytes, 128u);
}

TEST(PlanMemory, OfTwoResultsOneTakesTheOperandsPlace) {
  const MemoryPlan plan =
      PlanMemory({{{0}, {1}}, {{1}, {2, 3}, {{2, 1}, {3, 1}}}, {{2, 3}, {4}}},
                 {External(64), Dropped(64, 0), Dropped(64, 1), Dropped(64, 1),
                  Kept(64, 2)});
  EXPECT_NE(Offsets(plan).at(2), Offsets(plan).at(3));
  EXPECT_EQ(plan.arena_bytes, 128u);
}

TEST(PlanMemory, WhatIsGivenUpServesBehindItsLastUse) {
  // s0 is read by the first two steps; s2 is born while it is, s3 follows it
  // in place, s4 comes later.
  std::vector<PlanSlot> slots = {Dropped(8192, -1), External(64),
                                 Dropped(8192, 0),  Dropped(8192, 1),
                                 Dropped(8192, 2),  Kept(64, 3)};
  const std::vector<PlanStep> steps = {
      {{0}, {2}}, {{0, 2}, {3}}, {{3}, {4}}, {{4}, {5}}};
  EXPECT_EQ(PlanMemory(steps, slots).arena_bytes, 2 * 8192u);
  slots[0].is_given_up = true;
  MemoryPlan plan = PlanMemory(steps, slots);
  EXPECT_EQ(plan.arena_bytes, 2 * 8192u) << "s2 and s3 beside one another";
  std::vector<PlanStep> in_place = steps;
  in_place[1].in_place = {{3, 0}};
  plan = PlanMemory(in_place, slots);
  EXPECT_EQ(plan.arena_bytes, 8192u);
}

// Executes a program of mixing steps once with each value in memory of its
// own and once as planned; the values that are owned afterwards must agree.
struct Simulated {
  std::vector<PlanStep> steps;
  std::vector<PlanSlot> slots;
};

Simulated RandomProgram(std::mt19937* rng) {
  Simulated p;
  auto pick = [&](int n) { return static_cast<int>((*rng)() % n); };
  const int externals = 1 + pick(4);
  for (int s = 0; s < externals; ++s) {
    p.slots.push_back({8u * (1 + pick(40)), -1, pick(4) != 0});
    p.slots.back().is_given_up = !p.slots.back().live_out && pick(2) == 0;
  }
  const int steps = 1 + pick(40);
  for (int i = 0; i < steps; ++i) {
    PlanStep step;
    const int reads = pick(3);
    for (int r = 0; r < reads; ++r) {
      step.reads.push_back(pick(static_cast<int>(p.slots.size())));
    }
    if (pick(4) == 0) {  // in place, of the whole or of a part
      const int target = pick(static_cast<int>(p.slots.size()));
      step.writes.push_back(target);
      if (pick(2) == 0) step.reads.push_back(target);
    } else {
      const int born = 1 + pick(2);
      for (int b = 0; b < born; ++b) {
        const int result = static_cast<int>(p.slots.size());
        p.slots.push_back({8u * pick(40), i, pick(3) == 0});
        for (const int r : step.reads) {  // all is read before it is written
          if (pick(2) == 0) continue;
          p.slots.back().bytes = p.slots[r].bytes;
          step.in_place.emplace_back(result, r);
        }
        step.writes.push_back(result);
      }
    }
    p.steps.push_back(step);
  }
  return p;
}

// Writes words that depend on all that is read. A slot that is not born here
// and not read keeps its odd words (a partial write).
void Execute(const PlanStep& step, std::uint32_t index,
             const std::vector<PlanSlot>& slots, char* const* memory) {
  std::uint64_t mix = 0x9e3779b97f4a7c15u * (index + 1);
  for (int s : step.reads) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(memory[s]);
    for (std::uint64_t w = 0; w < slots[s].bytes / 8; ++w) {
      mix = (mix ^ words[w]) * 0xbf58476d1ce4e5b9u + w;
    }
  }
  for (int s : step.writes) {
    auto* words = reinterpret_cast<std::uint64_t*>(memory[s]);
    const bool is_born = slots[s].born_step == static_cast<int>(index);
    for (std::uint64_t w = 0; w < slots[s].bytes / 8; w += is_born ? 1 : 2) {
      words[w] = mix + w + static_cast<std::uint64_t>(s);
    }
  }
}

std::uint64_t RoundUp(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }

// Returns the most that a step needs of it.
std::uint64_t AddScratch(Simulated* p, std::mt19937* rng) {
  std::uint64_t most = 0;
  for (PlanStep& step : p->steps) {
    std::uint64_t bytes = 0;
    for (int n = static_cast<int>((*rng)() % 3); n > 0; --n) {
      step.scratch.push_back(1 + (*rng)() % 512);
      bytes += RoundUp(step.scratch.back());
    }
    most = std::max(most, bytes);
  }
  return most;
}

// Scratch may take the places of values, but never more than it would behind
// them all.
TEST(PlanMemory, RandomScratchCostsNoMoreThanItself) {
  std::mt19937 rng(20261123);
  for (int round = 0; round < 3000; ++round) {
    Simulated p = RandomProgram(&rng);
    const std::uint64_t min_hosted = round % 2 == 0 ? 0 : kMinHostedBytes;
    const std::uint64_t without =
        PlanMemory(p.steps, p.slots, min_hosted).arena_bytes;
    const std::uint64_t most = AddScratch(&p, &rng);
    const std::uint64_t with =
        PlanMemory(p.steps, p.slots, min_hosted).arena_bytes;
    ASSERT_LE(with, without + most) << round;
  }
}

// The pieces of a step's scratch, each of which is written all over while the
// step runs.
class Scratch {
 public:
  Scratch(const MemoryPlan& plan, std::uint32_t needed, char* arena,
          char* const* slots) {
    for (const ScratchPlace& place : plan.scratch) {
      if (place.step != needed) continue;
      char* const base = place.host < 0 ? arena : slots[place.host];
      pieces_.emplace_back(base + place.offset, place.bytes);
    }
  }

  // With other bytes in each piece, and each time.
  void Fill(int time) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      std::fill_n(pieces_[i].first, pieces_[i].second, ByteOf(i, time));
    }
  }
  // Nobody else has written to one since.
  bool Holds(int time) const {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const auto& [begin, bytes] = pieces_[i];
      const auto same = std::count(begin, begin + bytes, ByteOf(i, time));
      if (static_cast<std::uint64_t>(same) != bytes) return false;
    }
    return true;
  }

 private:
  static char ByteOf(std::size_t i, int time) {
    return static_cast<char>(0x51 + 2 * i + time);
  }
  std::vector<std::pair<char*, std::uint64_t>> pieces_;
};

// What the steps that run need is all there, in their order, inside the arena
// or its host.
void ExpectAllScratch(const Simulated& p, const MemoryPlan& plan) {
  std::vector<std::vector<std::uint64_t>> wanted, found(plan.needed.size());
  for (const std::uint32_t i : plan.needed) {
    wanted.push_back(p.steps[i].scratch);
    std::sort(wanted.back().begin(), wanted.back().end());
  }
  std::uint32_t last = 0;
  for (const ScratchPlace& place : plan.scratch) {
    ASSERT_GE(place.step, last);
    last = place.step;
    ASSERT_LT(place.step, found.size());
    found[place.step].push_back(place.bytes);
    ASSERT_EQ(place.offset % 64, 0u);
    ASSERT_LE(place.offset + place.bytes,
              place.host < 0 ? plan.arena_bytes : p.slots[place.host].bytes);
  }
  for (auto& pieces : found) std::sort(pieces.begin(), pieces.end());
  ASSERT_EQ(found, wanted);
}

TEST(PlanMemory, RandomProgramsComputeTheSameAsWithoutSharing) {
  std::mt19937 rng(20240501);
  int shared = 0, hosted = 0, in_place = 0;
  int scratch_in_arena = 0, scratch_in_hosts = 0;
  for (int round = 0; round < 2000; ++round) {
    Simulated p = RandomProgram(&rng);
    if (round % 4 >= 2) AddScratch(&p, &rng);
    const std::uint64_t min_hosted = round % 2 == 0 ? 0 : kMinHostedBytes;
    const MemoryPlan plan = PlanMemory(p.steps, p.slots, min_hosted);
    const std::size_t count = p.slots.size();
    std::vector<std::vector<std::uint64_t>> own(count), planned(count);
    std::vector<std::uint64_t> arena(plan.arena_bytes / 8 + 1, 0xdeadu);
    std::vector<char*> own_ptr(count), plan_ptr(count);
    std::uint64_t sum = 0;
    for (std::size_t s = 0; s < count; ++s) {
      own[s].assign(p.slots[s].bytes / 8 + 1, 7 * s);
      planned[s] = own[s];
      own_ptr[s] = reinterpret_cast<char*>(own[s].data());
      plan_ptr[s] = reinterpret_cast<char*>(planned[s].data());
    }
    for (const Placement& q : plan.placements) {
      ASSERT_EQ(q.offset % 64, 0u);
      ASSERT_LE(q.offset + p.slots[q.slot].bytes,
                q.host < 0 ? plan.arena_bytes : p.slots[q.host].bytes);
      ASSERT_FALSE(p.slots[q.slot].live_out);
      hosted += q.host >= 0;
      plan_ptr[q.slot] =
          (q.host < 0 ? reinterpret_cast<char*>(arena.data())
                      : plan_ptr[static_cast<std::size_t>(q.host)]) +
          q.offset;
      sum += RoundUp(p.slots[q.slot].bytes);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectAllScratch(p, plan));
    for (const ScratchPlace& place : plan.scratch) {
      ++(place.host < 0 ? scratch_in_arena : scratch_in_hosts);
      sum += RoundUp(place.bytes);
    }
    ASSERT_LE(plan.arena_bytes, sum);
    shared += plan.arena_bytes < sum;
    for (std::uint32_t i = 0; i < p.steps.size(); ++i) {
      Execute(p.steps[i], i, p.slots, own_ptr.data());
    }
    for (std::uint32_t n = 0; n < plan.needed.size(); ++n) {
      const std::uint32_t i = plan.needed[n];
      for (const auto& [result, operand] : p.steps[i].in_place) {
        in_place += plan_ptr[result] == plan_ptr[operand];
      }
      Scratch scratch(plan, n, reinterpret_cast<char*>(arena.data()),
                      plan_ptr.data());
      scratch.Fill(0);
      Execute(p.steps[i], i, p.slots, plan_ptr.data());
      ASSERT_TRUE(scratch.Holds(0)) << "round " << round << " step " << i;
      scratch.Fill(1);
      ASSERT_TRUE(scratch.Holds(1)) << "round " << round << " step " << i;
    }
    for (std::size_t s = 0; s < count; ++s) {
      if (!p.slots[s].live_out) continue;
      own[s].pop_back();
      planned[s].pop_back();
      ASSERT_EQ(own[s], planned[s]) << "round " << round << " slot " << s;
    }
  }
  EXPECT_GT(hosted, 500) << "and put values into survivors";
  EXPECT_GT(in_place, 500) << "and results over operands";
  EXPECT_GT(shared, 500) << "the programs must make the planner share";
  EXPECT_GT(scratch_in_arena, 2000);
  EXPECT_GT(scratch_in_hosts, 1000);
}

}  // namespace
}  // namespace tjit

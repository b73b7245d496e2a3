// Two passes: a backward one over the steps for liveness, then the greedy
// placement of what dies inside the segment.
//
// A write may cover a part of a slot only (a view, an indexed write), so it
// never ends the need for earlier writes: once a later needed step touches a
// slot, every earlier writer of it is needed.
#include "compiler/passes/plan_memory.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace tjit {
namespace {

constexpr std::uint64_t kAlignment = 64;

std::uint64_t RoundUp(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// The steps, by index into the needed ones, in which a slot must be kept.
struct Lifetime {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  bool is_used = false;

  void Touch(std::uint32_t step) {
    if (!is_used) first = step;
    last = step;
    is_used = true;
  }
  bool Overlaps(const Lifetime& o) const {
    return first <= o.last && o.first <= last;
  }
};

std::vector<std::uint32_t> NeededSteps(const std::vector<PlanStep>& steps,
                                       const std::vector<PlanSlot>& slots) {
  std::vector<bool> wanted(slots.size());
  for (std::size_t s = 0; s < slots.size(); ++s) wanted[s] = slots[s].live_out;
  std::vector<std::uint32_t> needed;
  for (std::size_t i = steps.size(); i-- > 0;) {
    const PlanStep& step = steps[i];
    const bool is_needed =
        std::any_of(step.writes.begin(), step.writes.end(),
                    [&](std::int32_t s) { return s >= 0 && wanted[s]; });
    if (!is_needed) continue;
    needed.push_back(static_cast<std::uint32_t>(i));
    for (std::int32_t s : step.reads) {
      if (s >= 0) wanted[s] = true;
    }
  }
  std::reverse(needed.begin(), needed.end());
  return needed;
}

std::vector<Lifetime> Lifetimes(const std::vector<PlanStep>& steps,
                                const std::vector<std::uint32_t>& needed,
                                std::size_t slot_count) {
  std::vector<Lifetime> lives(slot_count);
  for (std::uint32_t i = 0; i < needed.size(); ++i) {
    const PlanStep& step = steps[needed[i]];
    for (std::int32_t s : step.reads) {
      if (s >= 0) lives[s].Touch(i);
    }
    for (std::int32_t s : step.writes) {
      if (s >= 0) lives[s].Touch(i);
    }
  }
  return lives;
}

struct Placed {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  Lifetime life;
};

// The smallest gap of at least `bytes` between the ranges of `placed` (sorted
// by begin) that live at the same time; behind them all if there is none.
std::uint64_t BestFit(const std::vector<Placed>& placed, const Lifetime& life,
                      std::uint64_t bytes) {
  std::uint64_t best = 0;
  std::uint64_t best_gap = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t end = 0;  // of what was passed so far
  for (const Placed& p : placed) {
    if (!p.life.Overlaps(life)) continue;
    if (p.begin >= end + bytes && p.begin - end < best_gap) {
      best = end;
      best_gap = p.begin - end;
    }
    end = std::max(end, p.end);
  }
  const bool found = best_gap != std::numeric_limits<std::uint64_t>::max();
  return found ? best : end;
}

}  // namespace

MemoryPlan PlanMemory(const std::vector<PlanStep>& steps,
                      const std::vector<PlanSlot>& slots) {
  MemoryPlan plan;
  plan.needed = NeededSteps(steps, slots);
  const std::vector<Lifetime> lives =
      Lifetimes(steps, plan.needed, slots.size());

  std::vector<std::int32_t> order;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    if (slots[s].born_step >= 0 && !slots[s].live_out && lives[s].is_used) {
      order.push_back(static_cast<std::int32_t>(s));
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) {
                     return slots[a].bytes > slots[b].bytes;
                   });
  std::vector<Placed> placed;
  for (std::int32_t s : order) {
    const std::uint64_t bytes = RoundUp(slots[s].bytes);
    const std::uint64_t offset =
        bytes == 0 ? 0 : BestFit(placed, lives[s], bytes);
    plan.placements.push_back({s, offset});
    if (bytes == 0) continue;
    const Placed entry{offset, offset + bytes, lives[s]};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), entry,
                                   [](const Placed& a, const Placed& b) {
                                     return a.begin < b.begin;
                                   }),
                  entry);
    plan.arena_bytes = std::max(plan.arena_bytes, offset + bytes);
  }
  return plan;
}

}  // namespace tjit

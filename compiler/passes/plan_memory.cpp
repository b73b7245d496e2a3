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

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();
// Each value looks at so many hosts.
constexpr std::size_t kMaxHosts = 64;

// Memory that values are put into: the arena, or a host's, until that is born.
struct Region {
  std::int32_t host = -1;
  std::uint64_t bytes = kNoLimit;
  std::uint32_t until = std::numeric_limits<std::uint32_t>::max();
  std::vector<Placed> placed;  // sorted by begin

  // The place of a value that fits in; false if there is none.
  bool Place(const Lifetime& life, std::uint64_t size, std::uint64_t* offset) {
    if (life.last >= until) return false;
    const std::uint64_t rounded = RoundUp(size);
    *offset = rounded == 0 ? 0 : BestFit(placed, life, rounded);
    if (bytes != kNoLimit && *offset + size > bytes) return false;
    if (rounded == 0) return true;
    const Placed entry{*offset, *offset + rounded, life};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), entry,
                                   [](const Placed& a, const Placed& b) {
                                     return a.begin < b.begin;
                                   }),
                  entry);
    return true;
  }
};

// The largest values that survive and are born here, the smallest first.
std::vector<Region> Hosts(const std::vector<PlanSlot>& slots,
                          const std::vector<Lifetime>& lives,
                          std::uint64_t min_bytes) {
  std::vector<Region> hosts;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const bool is_host = slots[s].born_step >= 0 && slots[s].live_out &&
                         lives[s].is_used && slots[s].bytes >= min_bytes;
    if (!is_host) continue;
    hosts.push_back(
        {static_cast<std::int32_t>(s), slots[s].bytes, lives[s].first, {}});
  }
  std::stable_sort(
      hosts.begin(), hosts.end(),
      [](const Region& a, const Region& b) { return a.bytes < b.bytes; });
  if (hosts.size() > kMaxHosts) {
    hosts.erase(hosts.begin(),
                hosts.end() - static_cast<std::ptrdiff_t>(kMaxHosts));
  }
  return hosts;
}

// Values that die inside the segment, the largest first.
std::vector<std::int32_t> Temporaries(const std::vector<PlanSlot>& slots,
                                      const std::vector<Lifetime>& lives) {
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
  return order;
}

}  // namespace

MemoryPlan PlanMemory(const std::vector<PlanStep>& steps,
                      const std::vector<PlanSlot>& slots,
                      std::uint64_t min_hosted_bytes) {
  MemoryPlan plan;
  plan.needed = NeededSteps(steps, slots);
  const std::vector<Lifetime> lives =
      Lifetimes(steps, plan.needed, slots.size());
  std::vector<Region> hosts = Hosts(slots, lives, min_hosted_bytes);
  Region arena;
  for (const std::int32_t s : Temporaries(slots, lives)) {
    const std::uint64_t bytes = slots[s].bytes;
    std::uint64_t offset = 0;
    Region* region = &arena;
    for (Region& host : hosts) {
      if (bytes < min_hosted_bytes || bytes > host.bytes) continue;
      if (!host.Place(lives[s], bytes, &offset)) continue;
      region = &host;
      break;
    }
    if (region == &arena) {
      arena.Place(lives[s], bytes, &offset);
      plan.arena_bytes = std::max(plan.arena_bytes, offset + RoundUp(bytes));
    }
    plan.placements.push_back({s, offset, region->host});
  }
  return plan;
}

}  // namespace tjit

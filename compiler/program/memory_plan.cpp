// Two passes: a backward one over the steps for liveness, then the greedy
// placement of what dies inside the segment.
//
// A write may cover a part of a slot only (a view, an indexed write), so it
// never ends the need for earlier writes: once a later needed step touches a
// slot, every earlier writer of it is needed.
#include "compiler/program/memory_plan.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "support/assert.h"
#include "support/planted_defect.h"

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
    if (Planted(Defect::kSharedPlace)) return first < o.last && o.first < last;
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
// So many more orders of placing are tried, while fewer pairs of values than
// this have been compared for a plan; with more of them there is one order.
constexpr std::size_t kMostOrders = 12;
constexpr std::size_t kMostPairs = 1 << 20;

// Memory that values are put into: the arena, or a host's, before that is born
// or behind its last use.
struct Region {
  std::int32_t host = -1;
  std::uint64_t bytes = kNoLimit;
  Lifetime taken;              // by the host itself
  std::vector<Placed> placed;  // sorted by begin

  // The place of a value that fits in; false if there is none.
  bool Place(const Lifetime& life, std::uint64_t size, std::uint64_t* offset) {
    if (taken.is_used && taken.Overlaps(life)) return false;
    const std::uint64_t rounded = RoundUp(size);
    *offset = rounded == 0 ? 0 : BestFit(placed, life, rounded);
    if (bytes != kNoLimit && *offset + size > bytes) return false;
    Insert(life, *offset, rounded);
    return true;
  }
  // The very place of the host, which the value follows, or which follows it;
  // false if something else is there.
  bool PlaceOver(const Lifetime& life, std::uint64_t size) {
    const std::uint64_t rounded = RoundUp(size);
    for (const Placed& p : placed) {
      if (p.begin < rounded && p.life.Overlaps(life)) return false;
    }
    Insert(life, 0, rounded);
    return true;
  }

 private:
  void Insert(const Lifetime& life, std::uint64_t offset,
              std::uint64_t rounded) {
    if (rounded == 0) return;
    const Placed entry{offset, offset + rounded, life};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), entry,
                                   [](const Placed& a, const Placed& b) {
                                     return a.begin < b.begin;
                                   }),
                  entry);
  }
};

// The largest values that survive and are born here or are given up, the
// smallest first.
std::vector<Region> Hosts(const std::vector<PlanSlot>& slots,
                          const std::vector<Lifetime>& lives,
                          std::uint64_t min_bytes) {
  std::vector<Region> hosts;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    if (!lives[s].is_used || slots[s].bytes < min_bytes) continue;
    Region region{static_cast<std::int32_t>(s), slots[s].bytes, lives[s], {}};
    if (slots[s].is_given_up) {
      region.taken.first = 0;
    } else if (slots[s].born_step >= 0 && slots[s].live_out) {
      region.taken.last = std::numeric_limits<std::uint32_t>::max();
    } else {
      continue;
    }
    hosts.push_back(std::move(region));
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

// Values that die inside the segment, those that follow one another in place
// together.
struct Chain {
  std::vector<std::int32_t> slots;
  std::uint64_t bytes = 0;
  Lifetime life;
  // In place: what is given up before the first, what survives behind the last.
  std::int32_t from = -1;
  std::int32_t into = -1;
};

// The largest first, of equals the first: those then fill as few places as
// there are of them at a time.
void SortBySize(std::vector<Chain>* chains) {
  std::stable_sort(chains->begin(), chains->end(),
                   [](const Chain& a, const Chain& b) {
                     return a.bytes != b.bytes ? a.bytes > b.bytes
                                               : a.life.first < b.life.first;
                   });
}

// Those of the fullest step first: one that lives while much else does has few
// places to go. Only what lies in the arena counts. Returns the bytes of that
// step, below which no arena with these values goes (another order may put
// others into it).
// REQUIRES: SortBySize(), whose order remains among equals.
std::uint64_t SortByBreadth(std::size_t steps,
                            const std::vector<bool>& is_in_arena,
                            std::vector<Chain>* chains) {
  std::vector<std::uint64_t> breadth(steps);
  for (std::size_t i = 0; i < chains->size(); ++i) {
    const Chain& c = (*chains)[i];
    if (!is_in_arena[i]) continue;
    for (std::uint32_t step = c.life.first; step <= c.life.last; ++step) {
      breadth[step] += RoundUp(c.bytes);
    }
  }
  std::vector<std::pair<std::uint64_t, std::size_t>> order;
  for (std::size_t i = 0; i < chains->size(); ++i) {
    const Lifetime& life = (*chains)[i].life;
    order.emplace_back(*std::max_element(breadth.begin() + life.first,
                                         breadth.begin() + life.last + 1),
                       i);
  }
  std::stable_sort(
      order.begin(), order.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Chain> sorted;
  for (const auto& [bytes, i] : order) {
    sorted.push_back(std::move((*chains)[i]));
  }
  *chains = std::move(sorted);
  return order.empty() ? 0 : order.front().first;
}

class Chains {
 public:
  Chains(const std::vector<PlanStep>& steps,
         const std::vector<std::uint32_t>& needed,
         const std::vector<PlanSlot>& slots, const std::vector<Lifetime>& lives)
      : slots_(slots), lives_(lives), chain_of_(slots.size(), -1) {
    for (std::uint32_t i = 0; i < needed.size(); ++i) {
      for (const auto& [result, operand] : steps[needed[i]].in_place) {
        TryLink(i, result, operand);
      }
    }
    for (std::size_t s = 0; s < slots.size(); ++s) {
      if (IsTemporary(s) && chain_of_[s] < 0) Begin(static_cast<int>(s));
    }
  }

  std::vector<Chain> Release() && { return std::move(chains_); }

 private:
  bool IsTemporary(std::size_t s) const {
    return slots_[s].born_step >= 0 && !slots_[s].live_out && lives_[s].is_used;
  }
  int Begin(std::int32_t s) {
    chain_of_[s] = static_cast<int>(chains_.size());
    chains_.push_back({{s}, slots_[s].bytes, lives_[s]});
    return chain_of_[s];
  }
  // One result follows one operand at most.
  void TryLink(std::uint32_t i, std::int32_t result, std::int32_t operand) {
    if (slots_[result].bytes != slots_[operand].bytes ||
        lives_[result].first != i || lives_[operand].last != i) {
      return;
    }
    if (IsTemporary(operand)) {
      const int c =
          chain_of_[operand] < 0 ? Begin(operand) : chain_of_[operand];
      if (chains_[c].slots.back() == operand && chains_[c].into < 0) {
        Append(c, result);
      }
    } else if (slots_[operand].is_given_up && IsTemporary(result) &&
               chain_of_[result] < 0) {
      chains_[Begin(result)].from = operand;
    }
  }
  void Append(int c, std::int32_t result) {
    Chain& chain = chains_[c];
    if (!IsTemporary(result)) {
      chain.into = result;
    } else if (chain_of_[result] < 0) {
      chain.slots.push_back(result);
      chain.life.last = lives_[result].last;
      chain_of_[result] = c;
    }
  }

  const std::vector<PlanSlot>& slots_;
  const std::vector<Lifetime>& lives_;
  std::vector<int> chain_of_;  // by slot
  std::vector<Chain> chains_;
};

// Each piece of scratch is a chain of no slots that lives in one step.
std::vector<Chain> ScratchChains(const std::vector<PlanStep>& steps,
                                 const std::vector<std::uint32_t>& needed) {
  std::vector<Chain> chains;
  for (std::uint32_t i = 0; i < needed.size(); ++i) {
    for (const std::uint64_t bytes : steps[needed[i]].scratch) {
      chains.push_back({{}, bytes, {i, i, true}});
    }
  }
  return chains;
}

// The place of a chain in memory that is there anyway; null if there is none.
Region* Host(const Chain& chain, std::uint64_t min_bytes,
             std::vector<Region>* hosts, std::uint64_t* offset) {
  if (chain.bytes < min_bytes) return nullptr;
  *offset = 0;
  for (Region& host : *hosts) {
    const bool joins = host.host == chain.into || host.host == chain.from;
    if (joins && host.PlaceOver(chain.life, chain.bytes)) return &host;
  }
  for (Region& host : *hosts) {
    if (chain.bytes > host.bytes) continue;
    if (host.Place(chain.life, chain.bytes, offset)) return &host;
  }
  return nullptr;
}

struct Placing {
  MemoryPlan plan;                // the rest of which is the caller's
  std::size_t top = 0;            // the chain that the arena ends with
  std::vector<bool> is_in_arena;  // by chain
};

// Places the chains in their order.
Placing PlaceAll(const std::vector<Chain>& chains, std::vector<Region> hosts,
                 std::uint64_t min_hosted_bytes) {
  Placing placing;
  MemoryPlan& plan = placing.plan;
  placing.is_in_arena.resize(chains.size());
  Region arena;
  for (std::size_t i = 0; i < chains.size(); ++i) {
    const Chain& chain = chains[i];
    std::uint64_t offset = 0;
    const Region* host = Host(chain, min_hosted_bytes, &hosts, &offset);
    if (host == nullptr) {
      placing.is_in_arena[i] = true;
      arena.Place(chain.life, chain.bytes, &offset);
      const std::uint64_t end = offset + RoundUp(chain.bytes);
      if (end > plan.arena_bytes) {
        plan.arena_bytes = end;
        placing.top = i;
      }
    }
    const std::int32_t in = host == nullptr ? -1 : host->host;
    for (const std::int32_t s : chain.slots) {
      plan.placements.push_back({s, offset, in});
    }
    if (chain.slots.empty()) {
      plan.scratch.push_back({chain.life.first, chain.bytes, offset, in});
    }
  }
  return placing;
}

// Finds an order of placing that leaves few holes.
class Planner {
 public:
  Planner(std::size_t steps, std::vector<Region> hosts,
          std::uint64_t min_hosted_bytes)
      : steps_(steps),
        hosts_(std::move(hosts)),
        min_hosted_bytes_(min_hosted_bytes) {}

  // Scratch behind the values, which never takes more than all that a step has
  // of it on top of them, or among them, if that is less. Of many, the largest
  // first, whatever it is.
  MemoryPlan Plan(std::vector<Chain> values, std::vector<Chain> scratch) {
    const std::size_t count = values.size() + scratch.size();
    if (count * count > kMostPairs) {
      values.insert(values.end(), scratch.begin(), scratch.end());
      SortBySize(&values);
      return PlaceAll(values, hosts_, min_hosted_bytes_).plan;
    }
    Ordered best = SmallestOf(std::move(values));
    if (scratch.empty()) return std::move(best.plan);
    SortBySize(&scratch);
    std::vector<Chain> order = std::move(best.order);
    order.insert(order.end(), scratch.begin(), scratch.end());
    best = {};
    Try(order, &best);
    if (best.plan.arena_bytes == 0 || pairs_ >= kMostPairs) {
      return std::move(best.plan);
    }
    Ordered mixed = SmallestOf(std::move(order));
    const bool is_less = mixed.plan.arena_bytes < best.plan.arena_bytes;
    return std::move(is_less ? mixed.plan : best.plan);
  }

 private:
  struct Ordered {
    Ordered() { plan.arena_bytes = kNoLimit; }

    std::vector<Chain> order;
    MemoryPlan plan;
  };

  // By size; if that leaves holes, by breadth, and then what the arena ends
  // with half as far from the front, again and again.
  Ordered SmallestOf(std::vector<Chain> chains) {
    SortBySize(&chains);
    Ordered best;
    const Placing first = Try(chains, &best);
    if (best.plan.arena_bytes == 0 || pairs_ >= kMostPairs) return best;
    const std::uint64_t least =
        SortByBreadth(steps_, first.is_in_arena, &chains);
    for (std::size_t tried = 0; tried < kMostOrders && pairs_ < kMostPairs &&
                                best.plan.arena_bytes > least;
         ++tried) {
      const auto top = static_cast<std::ptrdiff_t>(Try(chains, &best).top);
      std::rotate(chains.begin() + top / 2, chains.begin() + top,
                  chains.begin() + top + 1);
    }
    return best;
  }
  Placing Try(const std::vector<Chain>& order, Ordered* best) {
    pairs_ += order.size() * order.size();
    Placing placing = PlaceAll(order, hosts_, min_hosted_bytes_);
    if (placing.plan.arena_bytes < best->plan.arena_bytes) {
      best->order = order;
      best->plan = placing.plan;
    }
    return placing;
  }

  const std::size_t steps_;  // needed ones
  const std::vector<Region> hosts_;
  const std::uint64_t min_hosted_bytes_;
  std::size_t pairs_ = 0;  // of values, compared so far
};

// Every slot number is an index into the slots, or -1.
bool NameSlots(const std::vector<PlanStep>& steps, std::size_t slots) {
  const auto is_slot = [&](std::int32_t slot) {
    return slot >= -1 && slot < static_cast<std::int64_t>(slots);
  };
  return std::all_of(steps.begin(), steps.end(), [&](const PlanStep& step) {
    return std::all_of(step.reads.begin(), step.reads.end(), is_slot) &&
           std::all_of(step.writes.begin(), step.writes.end(), is_slot) &&
           std::all_of(step.in_place.begin(), step.in_place.end(),
                       [&](const auto& pair) {
                         return is_slot(pair.first) && is_slot(pair.second);
                       });
  });
}

}  // namespace

MemoryPlan PlanMemory(const std::vector<PlanStep>& steps,
                      const std::vector<PlanSlot>& slots,
                      std::uint64_t min_hosted_bytes) {
  TJIT_ASSERT(NameSlots(steps, slots.size()));
  std::vector<std::uint32_t> needed = NeededSteps(steps, slots);
  const std::vector<Lifetime> lives = Lifetimes(steps, needed, slots.size());
  MemoryPlan plan =
      Planner(needed.size(), Hosts(slots, lives, min_hosted_bytes),
              min_hosted_bytes)
          .Plan(Chains(steps, needed, slots, lives).Release(),
                ScratchChains(steps, needed));
  plan.needed = std::move(needed);
  std::stable_sort(plan.scratch.begin(), plan.scratch.end(),
                   [](const ScratchPlace& a, const ScratchPlace& b) {
                     return a.step < b.step;
                   });
  return plan;
}

}  // namespace tjit

#include "compiler/program/place_scratch.h"

#include <limits>

namespace tjit {

std::vector<PlanStep> ScratchUses(const ir::Function& function,
                                  const LoopPlan& plan) {
  const auto first =
      function.externals + static_cast<std::int32_t>(function.returns.size());
  const auto note = [&](std::int32_t memory, std::vector<std::int32_t>* in) {
    if (memory >= first) in->push_back(memory - first);
  };
  const auto home = [&](ir::ValueId value) {
    return plan.homes[static_cast<std::size_t>(value)].memory;
  };
  std::vector<PlanStep> uses;
  for (const Loop& loop : plan.loops) {
    PlanStep& use = uses.emplace_back();
    for (const int i : loop.instructions) {
      for (const ir::Operand& operand :
           function.body[static_cast<std::size_t>(i)].operands) {
        if (!operand.is_tensor()) continue;
        note(home(operand.value), &use.reads);
      }
    }
    for (const LoopStore& store : loop.stores) {
      note(store.memory, &use.writes);
      note(home(store.value), &use.reads);  // of copies
    }
  }
  return uses;
}

ScratchPlaces PlaceScratch(std::vector<PlanStep> uses,
                           const std::vector<std::int64_t>& bytes) {
  std::vector<PlanSlot> slots;
  for (const std::int64_t n : bytes) {
    slots.push_back({static_cast<std::uint64_t>(n), 0, false});
  }
  // All loops run.
  const auto result = static_cast<std::int32_t>(slots.size());
  slots.push_back({0, -1, true});
  for (PlanStep& use : uses) use.writes.push_back(result);
  const MemoryPlan plan =
      PlanMemory(uses, slots, std::numeric_limits<std::uint64_t>::max());
  ScratchPlaces places;
  places.offsets.resize(bytes.size());
  for (const Placement& p : plan.placements) {
    places.offsets[static_cast<std::size_t>(p.slot)] = p.offset;
  }
  places.bytes = plan.arena_bytes;
  return places;
}

}  // namespace tjit

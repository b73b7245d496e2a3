#include "compiler/lower/partition.h"

#include <algorithm>
#include <cstddef>
#include <list>
#include <unordered_map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace tjit {
namespace {

// Items are kept in a list, as single steps are put into its middle.
struct Item {
  bool is_group = false;
  std::vector<std::uint32_t> steps;
  std::int64_t elements = 0;
  absl::flat_hash_set<std::int32_t> slots;  // of a group
};

using Items = std::list<Item>;

class Partitioner {
 public:
  Partitioner(const std::vector<PartitionStep>& steps,
              const PartitionLimits& limits)
      : steps_(steps), limits_(limits), places_(steps.size()) {}

  std::vector<PartitionItem> Run() {
    for (std::uint32_t i = 0; i < steps_.size(); ++i) Place(i);
    std::vector<PartitionItem> result;
    for (Item& item : items_) Append(std::move(item), &result);
    return result;
  }

 private:
  // What touched a slot since its last write, that write included.
  struct SlotUse {
    std::vector<std::uint32_t> writers;  // the last one, or none
    std::vector<std::uint32_t> readers;
  };

  // The items from `first` on that step i may join or follow: its last
  // dependence, or end() without one.
  Items::iterator LastDependence(std::uint32_t i) {
    absl::flat_hash_set<const Item*> on;
    const auto depend = [&](const std::vector<std::uint32_t>& steps) {
      for (const std::uint32_t s : steps) on.insert(&*places_[s]);
    };
    for (const std::int32_t slot : steps_[i].reads) {
      if (slot >= 0) depend(uses_[slot].writers);
    }
    for (const std::int32_t slot : steps_[i].writes) {
      if (slot < 0) continue;
      depend(uses_[slot].writers);
      depend(uses_[slot].readers);
    }
    if (on.empty()) return items_.end();
    auto it = items_.end();
    while (it != items_.begin()) {
      if (on.contains(&*--it)) return it;
    }
    return items_.end();
  }

  bool SharesSlot(const Item& item, const PartitionStep& step) const {
    const auto shared = [&](std::int32_t slot) {
      return slot >= 0 && item.slots.contains(slot);
    };
    return std::any_of(step.reads.begin(), step.reads.end(), shared) ||
           std::any_of(step.writes.begin(), step.writes.end(), shared);
  }

  // The group that step i joins, else end(): of those from `first` on.
  Items::iterator GroupFor(std::uint32_t i, Items::iterator first) {
    const PartitionStep& step = steps_[i];
    auto best = items_.end();
    for (auto it = first; it != items_.end(); ++it) {
      if (!it->is_group || it->steps.size() >= limits_.max_steps) continue;
      if (SharesSlot(*it, step)) return it;
      if (best == items_.end() && it->elements == step.elements) best = it;
    }
    return best;
  }

  void Place(std::uint32_t i) {
    const PartitionStep& step = steps_[i];
    const auto last = LastDependence(i);
    const bool is_first = last == items_.end();
    auto at = items_.end();
    if (step.is_lowerable) {
      at = GroupFor(i, is_first ? items_.begin() : last);
      if (at == items_.end()) at = items_.emplace(items_.end());
      at->is_group = true;
      at->elements = std::max(at->elements, step.elements);
    } else {
      at = items_.emplace(GapFrom(is_first ? items_.begin() : std::next(last)));
    }
    at->steps.push_back(i);
    places_[i] = at;
    Record(i, &*at);
  }

  // Where a single step goes: behind the single steps that are there, so that
  // these keep their order, and values the lifetimes that they have in eager.
  Items::iterator GapFrom(Items::iterator it) {
    while (it != items_.end() && !it->is_group) ++it;
    return it;
  }

  void Record(std::uint32_t i, Item* item) {
    const PartitionStep& step = steps_[i];
    for (const std::int32_t slot : step.reads) {
      if (slot < 0) continue;
      uses_[slot].readers.push_back(i);
      if (item->is_group) item->slots.insert(slot);
    }
    for (const std::int32_t slot : step.writes) {
      if (slot < 0) continue;
      uses_[slot].writers.assign(1, i);
      uses_[slot].readers.clear();
      if (item->is_group) item->slots.insert(slot);
    }
  }

  void Append(Item item, std::vector<PartitionItem>* result) {
    const bool is_worth_it =
        std::any_of(item.steps.begin(), item.steps.end(),
                    [&](std::uint32_t i) { return steps_[i].is_worth_alone; });
    if (item.is_group &&
        (is_worth_it || item.steps.size() >= limits_.min_steps)) {
      result->push_back({true, std::move(item.steps)});
      return;
    }
    for (const std::uint32_t i : item.steps) result->push_back({false, {i}});
  }

  const std::vector<PartitionStep>& steps_;
  const PartitionLimits limits_;
  Items items_;
  std::vector<Items::iterator> places_;  // of each step that was placed
  absl::flat_hash_map<std::int32_t, SlotUse> uses_;
};

}  // namespace

std::vector<PartitionItem> Partition(const std::vector<PartitionStep>& steps,
                                     const PartitionLimits& limits) {
  return Partitioner(steps, limits).Run();
}

}  // namespace tjit

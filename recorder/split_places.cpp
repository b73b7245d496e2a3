#include "recorder/split_places.h"

#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "support/policy.h"

namespace tjit {
namespace {

// A slot before, and what it becomes.
struct OldSlot {
  SlotRecord record;
  bool is_written = false;
  bool has_places = false;  // it is read at more than one
  std::int64_t offset = -1;  // in bytes, of the first access
  std::int32_t first = kNoSlot;  // new number of its first place
  // New numbers of its places, by offset in bytes.
  absl::flat_hash_map<std::int64_t, std::int32_t> places;
};

class Splitter {
 public:
  Splitter(std::uint32_t first_slot, std::vector<NewStep>* steps)
      : first_(static_cast<std::int32_t>(first_slot)), steps_(*steps) {}

  void Run() {
    if (!Look()) return;
    next_ = first_;
    for (NewStep& step : steps_) Renumber(&step);
  }

 private:
  OldSlot& Of(std::int32_t slot) {
    return old_[static_cast<std::size_t>(slot - first_)];
  }

  // True if there is something to split.
  bool Look() {
    bool has_any = false;
    for (const NewStep& step : steps_) {
      for (const SlotRecord& slot : step.new_slots) {
        old_.emplace_back().record = slot;
      }
      for (const ArgRecord& arg : step.step.args) {
        if (arg.slot < first_) continue;
        OldSlot& slot = Of(arg.slot);
        slot.is_written |= arg.written;
        if (slot.offset < 0) slot.offset = OffsetOf(arg);
        slot.has_places |= slot.offset != OffsetOf(arg);
      }
    }
    for (OldSlot& slot : old_) {
      slot.has_places &= !slot.is_written && slot.record.born_step < 0;
      has_any |= slot.has_places;
    }
    return has_any;
  }

  std::int32_t AddSlot(const SlotRecord& record, NewStep* step) {
    step->new_slots.push_back(record);
    return next_++;
  }

  void Renumber(NewStep* step) {
    step->new_slots.clear();
    const bool is_list = step->step.args.size() > policy::kMergedPlaces;
    absl::flat_hash_map<std::int32_t, bool> used;  // in this list
    for (ArgRecord& arg : step->step.args) {
      if (arg.slot < first_) continue;
      OldSlot& slot = Of(arg.slot);
      if (!slot.has_places) {
        arg.slot = Whole(&slot, step);
        continue;
      }
      const auto place = slot.places.find(OffsetOf(arg));
      if (place != slot.places.end() &&
          !(is_list && std::exchange(used[place->second], true))) {
        arg.slot = place->second;
        continue;
      }
      const std::int32_t number = AddPlace(&slot, step);
      arg.slot = slot.places[OffsetOf(arg)] = number;
      used[number] = true;
    }
    for (ResultRecord& result : step->step.results) {
      if (result.slot >= first_) result.slot = Whole(&Of(result.slot), step);
    }
  }

  std::int32_t Whole(OldSlot* slot, NewStep* step) {
    if (slot->first == kNoSlot) slot->first = AddSlot(slot->record, step);
    return slot->first;
  }

  std::int32_t AddPlace(OldSlot* slot, NewStep* step) {
    SlotRecord record = slot->record;
    if (slot->first == kNoSlot) slot->first = next_;
    if (!record.is_place()) record.place_of = slot->first;
    return AddSlot(record, step);
  }

  const std::int32_t first_;
  std::vector<NewStep>& steps_;
  std::vector<OldSlot> old_;
  std::int32_t next_ = 0;
};

}  // namespace

void SplitPlaces(std::uint32_t first_slot, std::vector<NewStep>* steps) {
  Splitter(first_slot, steps).Run();
}

}  // namespace tjit

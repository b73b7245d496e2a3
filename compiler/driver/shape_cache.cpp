#include "compiler/driver/shape_cache.h"

#include <algorithm>
#include <utility>

namespace tjit {

bool CachedShape::IsWhole() const {
  return std::all_of(groups.begin(), groups.end(), [](const Group& group) {
    return group.kernel != nullptr && group.general != nullptr;
  });
}

const CachedShape* ShapeCache::Find(const GroupKey& key) const {
  const auto found = entries_.find(key.text);
  if (found == entries_.end() || found->second.slots != key.slots) {
    return nullptr;
  }
  return found->second.segment.get();
}

bool ShapeCache::HasSeen(const GroupKey& key) {
  const auto found = entries_.find(key.text);
  if (found != entries_.end()) return found->second.slots == key.slots;
  if (bytes_ + key.text.size() > kMaxBytes) Clear();
  bytes_ += key.text.size();
  entries_.emplace(key.text, Entry{key.slots, nullptr});
  return false;
}

void ShapeCache::Add(const GroupKey& key, CachedShape segment) {
  std::size_t steps = 0;
  for (const PartitionItem& item : segment.items) steps += item.steps.size();
  if (steps_ + steps > kMaxSteps) Clear();
  const auto [place, is_new] = entries_.try_emplace(key.text);
  if (is_new) bytes_ += key.text.size();
  if (place->second.segment == nullptr) steps_ += steps;  // else as many again
  place->second.slots = key.slots;
  place->second.segment =
      std::make_unique<const CachedShape>(std::move(segment));
}

void ShapeCache::Clear() {
  entries_.clear();
  bytes_ = 0;
  steps_ = 0;
}

}  // namespace tjit

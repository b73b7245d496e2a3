#include "compiler/driver/group_cache.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "recorder/op_record.h"

namespace tjit {
namespace {

class Writer {
 public:
  Writer(absl::Span<const GroupSlot> infos, GroupKey::Sizes sizes,
         GroupKey* key)
      : infos_(infos),
        has_sizes_(sizes == GroupKey::Sizes::kInText),
        key_(*key) {}

  void Add(std::string_view text) {
    Add(text.size());
    key_.text.append(text);
  }
  void Add(const GroupStep& step) {
    const StepRecord& record = *step.record;
    Add(step.op);
    Add(step.threads);
    Add(record.kind);
    Add(record.args.size());
    for (const ArgRecord& arg : record.args) {
      AddSlot(arg.slot);
      Add(arg.written);
      Add(*arg.geometry);
    }
    Add(record.statics.size());
    for (const std::uint64_t number : record.statics) Add(number);
    Add(record.scalars.size());
    for (const ScalarRecord& scalar : record.scalars) Add(scalar);
    Add(record.results.size());
    for (const ResultRecord& result : record.results) {
      Add(result.kind);
      AddSlot(result.slot);
      Add(result.alias_arg);
      Add(*result.geometry);
    }
  }

 private:
  // A number, enumerator or bool: no padding, which has no certain bytes.
  template <class T>
  void Add(T value) {
    static_assert(std::is_scalar_v<T>);
    key_.text.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Add(const TensorGeometry& g) {
    Add(g.key_set);
    Add(g.dtype);
    Add(g.ndim);
    Add(g.itemsize);
    Add(g.wrapped_number);
    if (!has_sizes_) return;
    Add(g.offset);
    for (int d = 0; d < g.ndim; ++d) {
      Add(g.sizes[d]);
      Add(g.strides[d]);
    }
  }
  // Of an argument of the function the value is no matter.
  void Add(const ScalarRecord& scalar) {
    Add(scalar.value.type);
    Add(scalar.IsRuntime());
    Add(scalar.may_vary);
    Add(scalar.value_class);
    if (scalar.IsRuntime()) return;
    Add(scalar.value.bits[0]);
    Add(scalar.value.bits[1]);
  }
  void AddSlot(std::int32_t slot) {
    if (slot == kNoSlot) return Add(kNoSlot);
    const auto [place, is_new] = numbers_.try_emplace(
        slot, static_cast<std::int32_t>(key_.slots.size()));
    Add(place->second);
    if (!is_new) return;
    key_.slots.push_back(slot);
    const auto info =
        std::lower_bound(infos_.begin(), infos_.end(), slot,
                         [](const GroupSlot& s, std::int32_t wanted) {
                           return s.slot < wanted;
                         });
    if (info == infos_.end() || info->slot != slot) return Add(false);
    Add(true);
    if (has_sizes_) Add(info->bytes);
    Add(info->born_here);
    Add(info->needed_after);
  }

  const absl::Span<const GroupSlot> infos_;  // sorted by slot
  const bool has_sizes_;
  GroupKey& key_;
  absl::flat_hash_map<std::int32_t, std::int32_t> numbers_;
};

}  // namespace

GroupKey::GroupKey(std::string_view context, absl::Span<const GroupStep> steps,
                   absl::Span<const GroupSlot> infos, Sizes sizes) {
  text.reserve(256 * (steps.size() + 1));
  Writer writer(infos, sizes, this);
  writer.Add(context);
  for (const GroupStep& step : steps) writer.Add(step);
}

std::vector<std::int32_t> GroupKey::ToSlots(
    const std::vector<std::int32_t>& numbers) const {
  std::vector<std::int32_t> result;
  result.reserve(numbers.size());
  for (const std::int32_t number : numbers) {
    result.push_back(slots[static_cast<std::size_t>(number)]);
  }
  return result;
}

std::vector<std::int32_t> GroupKey::ToNumbers(
    const std::vector<std::int32_t>& named) const {
  absl::flat_hash_map<std::int32_t, std::int32_t> numbers;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    numbers.emplace(slots[i], static_cast<std::int32_t>(i));
  }
  std::vector<std::int32_t> result;
  result.reserve(named.size());
  for (const std::int32_t slot : named) result.push_back(numbers.at(slot));
  return result;
}

KeptFunction::KeptFunction(ir::Function f) : function(std::move(f)) {
  kept.Set(sizeof(*this) + ir::KeptBytesOf(function));
}

const CachedGroup* GroupCache::Find(const GroupKey& key) {
  const auto found = groups_.find(key.text);
  if (found == groups_.end()) return nullptr;
  ++hits_;
  return &found->second;
}

const CachedGroup& GroupCache::Add(GroupKey key, CachedGroup group) {
  MakeRoom(key);
  return groups_.insert_or_assign(std::move(key.text), std::move(group))
      .first->second;
}

void GroupCache::AddPrecompiled(GroupKey key, Lowered lowered) {
  MakeRoom(key);
  Precompiled& added = precompiled_[std::move(key.text)];
  function_bytes_ -= ir::KeptBytesOf(added.lowered.function);
  added = {std::move(key.slots), std::move(lowered)};
  function_bytes_ += ir::KeptBytesOf(added.lowered.function);
}

bool GroupCache::AcquirePrecompiled(const GroupKey& key, Lowered* lowered) {
  const auto found = precompiled_.find(key.text);
  if (found == precompiled_.end()) return false;
  // Those of another segment have its slots.
  const bool is_same = found->second.slots == key.slots;
  function_bytes_ -= ir::KeptBytesOf(found->second.lowered.function);
  if (is_same) *lowered = std::move(found->second.lowered);
  precompiled_.erase(found);
  return is_same;
}

void GroupCache::MakeRoom(const GroupKey& key) {
  if (bytes_ + key.text.size() > kMaxBytes) Clear();
  bytes_ += key.text.size();
}

void GroupCache::Clear() {
  groups_.clear();
  can_compile_.clear();
  precompiled_.clear();
  bytes_ = function_bytes_ = 0;
}

}  // namespace tjit

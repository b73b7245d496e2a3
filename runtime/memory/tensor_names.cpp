#include "runtime/memory/tensor_names.h"

#include <c10/core/Storage.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "support/mutex.h"

namespace tjit::runtime {

std::atomic<bool> g_has_tensor_names{false};

namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

struct Place {
  std::int64_t offset = 0;  // bytes
  std::string name;
};
struct NamedStorage {
  WeakStorage storage;
  std::vector<Place> places;
};
using Table = absl::flat_hash_map<const c10::StorageImpl*, NamedStorage>;

constexpr std::size_t kFirstSweep = 64;

// Never destroyed: tensors are named while the process ends.
struct Names {
  Mutex mutex;
  Table table ABSL_GUARDED_BY(mutex);
  std::size_t next_sweep ABSL_GUARDED_BY(mutex) = kFirstSweep;
};
Names& TheNames() {
  static auto* names = new Names;
  return *names;
}

// Takes out those that have died, once the table has doubled since. Their
// memory is given back behind the mutex.
std::vector<NamedStorage> Sweep(Names* names)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(names->mutex) {
  std::vector<NamedStorage> dead;
  if (names->table.size() < names->next_sweep) return dead;
  for (auto it = names->table.begin(); it != names->table.end();) {
    const auto here = it++;
    if (!here->second.storage.expired()) continue;
    dead.push_back(std::move(here->second));
    names->table.erase(here);
  }
  names->next_sweep =
      std::clamp(2 * names->table.size(), kFirstSweep, kMostNamedStorages);
  return dead;
}

std::int64_t OffsetOf(const c10::TensorImpl* impl) {
  return impl->storage_offset() * static_cast<std::int64_t>(impl->itemsize());
}

// `offset`: null of a storage.
std::string Find(const c10::StorageImpl* storage, const std::int64_t* offset) {
  if (!HasTensorNames() || storage == nullptr) return "";
  Names& names = TheNames();
  const MutexLock lock(names.mutex);
  const auto found = names.table.find(storage);
  if (found == names.table.end()) return "";
  const std::vector<Place>& places = found->second.places;
  if (places.size() == 1) return places[0].name;
  for (const Place& place : places) {
    if (offset != nullptr && place.offset == *offset) return place.name;
  }
  return "";
}

}  // namespace

bool SetTensorName(const c10::TensorImpl* impl, const std::string& name) {
  const std::int64_t offset = OffsetOf(impl);
  WeakStorage storage = impl->unsafe_storage().getWeakStorageImpl();
  std::vector<NamedStorage> dead;
  Names& names = TheNames();
  const MutexLock lock(names.mutex);
  dead = Sweep(&names);
  const c10::StorageImpl* const key = storage._unsafe_get_target();
  auto found = names.table.find(key);
  if (found == names.table.end()) {
    if (names.table.size() >= kMostNamedStorages) return false;
    found =
        names.table.emplace(key, NamedStorage{std::move(storage), {}}).first;
  }
  g_has_tensor_names.store(true, std::memory_order_relaxed);
  std::vector<Place>& places = found->second.places;
  const auto place =
      std::find_if(places.begin(), places.end(),
                   [&](const Place& p) { return p.offset == offset; });
  if (place != places.end()) {
    place->name = name;
    return true;
  }
  if (places.size() >= kMostNamesOfStorage) return false;
  places.push_back({offset, name});
  return true;
}

std::string TensorNameOf(const c10::TensorImpl* impl) {
  if (!HasTensorNames() || impl == nullptr || !impl->has_storage()) return "";
  const std::int64_t offset = OffsetOf(impl);
  return Find(impl->unsafe_storage().unsafeGetStorageImpl(), &offset);
}

std::string TensorNameOf(const c10::StorageImpl* storage) {
  return Find(storage, nullptr);
}

Mutex& MutexOfNames() { return TheNames().mutex; }
void LockNamesForFork() { TheNames().mutex.LockForFork(); }
void UnlockNamesAfterFork() { TheNames().mutex.UnlockAfterFork(); }

}  // namespace tjit::runtime

#include "runtime/memory/read_pointers.h"

#include <c10/util/intrusive_ptr.h>

#include <exception>
#include <new>
#include <vector>

#include "runtime/memory/deferred_storage.h"
#include "runtime/platform/thread_context.h"

namespace tjit::runtime {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

struct Reads {
  int scopes = 1;
  std::vector<WeakStorage> storages;
};

// Of the scopes that are open. A pointer, as libtjit has little room for more.
constinit thread_local Reads* t_reads = nullptr;

}  // namespace

void BeginReading() noexcept {
  if (t_reads != nullptr) {
    ++t_reads->scopes;
  } else {
    t_reads = new (std::nothrow) Reads;
  }
  // Without memory pointers expose as ever.
  if (t_reads != nullptr) ++t_context.reader;
}

void EndReading() noexcept {
  if (t_reads == nullptr) return;
  --t_context.reader;
  for (const WeakStorage& weak : t_reads->storages) {
    const auto storage = weak.lock();
    if (storage == nullptr) continue;
    if (const Block* block = BlockOf(storage.get())) {
      ArmStorage(storage.get(), block);
    }
  }
  t_reads->storages.clear();
  if (--t_reads->scopes != 0) return;
  delete t_reads;
  t_reads = nullptr;
}

bool WillBeArmed(c10::StorageImpl* storage) noexcept {
  if (t_reads == nullptr) return true;  // a reader that arms it by itself
  try {
    t_reads->storages.emplace_back(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage));
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

}  // namespace tjit::runtime

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
  int scopes = 0;  // of tjit::Reading
  std::vector<WeakStorage> storages;
};

// Of the scopes that are open. A pointer, as libtjit has little room for more.
constinit thread_local Reads* t_reads = nullptr;

void ArmAll() noexcept {
  for (const WeakStorage& weak : t_reads->storages) {
    const auto storage = weak.lock();
    if (storage == nullptr) continue;
    if (Block* block = BlockOf(storage.get())) {
      ArmStorage(storage.get(), block);
    }
  }
  t_reads->storages.clear();
}

void Drop() noexcept {
  delete t_reads;
  t_reads = nullptr;
}

}  // namespace

void BeginReading() noexcept {
  if (t_reads == nullptr) t_reads = new (std::nothrow) Reads;
  if (t_reads == nullptr) return;  // without memory pointers expose as ever
  ++t_reads->scopes;
  ++t_context.reader;
}

void EndReading() noexcept {
  if (t_reads == nullptr || t_reads->scopes == 0) return;
  --t_context.reader;
  ArmAll();
  if (--t_reads->scopes == 0) Drop();
}

// Who reads in a tjit::Reading has its pointers until that is over.
void ArmLent() noexcept {
  if (t_reads == nullptr || t_reads->scopes != 0) return;
  ArmAll();
  Drop();
}

bool WillBeArmed(c10::StorageImpl* storage) noexcept {
  if (t_reads == nullptr) {
    if (!t_context.lends) return true;  // a reader that arms it by itself
    t_reads = new (std::nothrow) Reads;
    if (t_reads == nullptr) return false;
  }
  try {
    t_reads->storages.emplace_back(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage));
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

}  // namespace tjit::runtime

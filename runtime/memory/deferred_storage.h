// Arming: the materialiser hook on the storages that the program can see.
//
// libtorch calls the hook before it hands out a mutable pointer, through views
// too. It is one shot: wrappers arm every unexposed storage that they take or
// return, and do so again after each kernel, as a call clears the hook.
// Tested by: tests/runtime/memory/pending_reads_test.cpp
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include "runtime/memory/block.h"

namespace tjit::runtime {

// The hook: flushes whoever needs the bytes and marks the block as exposed,
// unless a kernel or a known reader runs on this thread.
void MaterializeHook(c10::StorageImpl* storage);

inline void ArmStorage(c10::StorageImpl* storage, Block* block) {
  if (!storage->has_materializer() &&
      !block->exposed.load(std::memory_order_relaxed)) {
    block->ForgetContent();  // somebody had a pointer
    storage->set_materializer(&MaterializeHook);
  }
}

// A kernel has written `impl`; null is skipped. Most have taken a pointer for
// it, which ArmStorage() sees.
inline void ForgetContent(const c10::TensorImpl* impl) {
  if (impl == nullptr) return;
  const c10::StorageImpl* storage =
      impl->unsafe_storage().unsafeGetStorageImpl();
  if (storage == nullptr) return;
  if (Block* block = BlockOf(storage)) block->ForgetContent();
}

// Arms the storage of `impl` if it is one of ours. Null is skipped.
inline void Arm(const c10::TensorImpl* impl) {
  // has_storage() is virtual: what has none has a null one.
  if (impl == nullptr) return;
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (storage == nullptr || storage->has_materializer()) return;
  if (Block* block = BlockOf(storage)) ArmStorage(storage, block);
}

}  // namespace tjit::runtime

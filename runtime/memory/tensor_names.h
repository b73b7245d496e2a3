// The names that the program gave to tensors (tjit::name), for what tjit
// prints.
//
// A name belongs to a place in a storage: the storage, which is held weakly,
// and where in it the tensor begins. So the address of a storage that has died
// is nobody else's while its entry is here, and no tensor gets the name of
// another one. Entries of dead storages are dropped as the table grows. A
// tensor whose storage has a weak reference is not recycled
// (tensor_recycler.h), but otherwise as it was.
//
// Invariants: (1) At most kMostNamedStorages storages, and kMostNamesOfStorage
// places in each. (2) Nothing here decides what is recorded or found.
// Threads: any; the mutex is a leaf. A program without names pays one load
// where a sequence is recorded.
// Tested by: tests/runtime/name_test.cpp
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <atomic>
#include <cstddef>
#include <string>

#include "support/mutex.h"

namespace tjit::runtime {

inline constexpr std::size_t kMostNamedStorages = 65536;
inline constexpr std::size_t kMostNamesOfStorage = 256;

extern std::atomic<bool> g_has_tensor_names;  // there has been one
inline bool HasTensorNames() {
  return g_has_tensor_names.load(std::memory_order_relaxed);
}

// The name of the tensor from now on, in the place of the one that it had.
// False if there is no room. REQUIRES: it has a storage.
bool SetTensorName(const c10::TensorImpl* impl, const std::string& name);

// The name of what begins there in its storage; else that of the storage, if it
// has one name; else "".
std::string TensorNameOf(const c10::TensorImpl* impl);
std::string TensorNameOf(const c10::StorageImpl* storage);

// Guards all that is kept of names.
Mutex& MutexOfNames();
void LockNamesForFork();
void UnlockNamesAfterFork();

}  // namespace tjit::runtime

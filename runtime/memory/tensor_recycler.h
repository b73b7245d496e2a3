// Tensors of deferred results that stay whole when the program drops them.
//
// Most results of a replayed program die while their op is pending, and the
// next op makes a tensor like it: a TensorImpl, a StorageImpl, a DataPtr, a
// version counter and a block are taken apart to be put together again. Here
// they stay together: the block goes on a free list of its size class, with the
// tensor around it, and the next result of that class takes both.
//
//   drop:  PooledTensor's operator delete -> Recycle()  | taken apart
//   make:  Acquire(), also from the next two classes    | made anew
//
// Whoever else takes such a block, or moves it out of the thread's own list,
// takes the tensor apart first (Dismantle): what a tensor of libtorch is, and
// what the block cache counts, is the same.
//
// Invariants: (1) Only a tensor that is as it was made is recycled: nothing but
// it knows its storage and version counter, it has no autograd, Python or
// extra metadata, and its storage is armed or can be, unexposed, over the whole
// of a quiet block of the cache, or of a slot without memory. What may differ
// from the next one (sizes, dtype, key set) is written anew. (2) A recycled
// block is on a recycled list of a thread. (3) A thread has at most
// kMaxRecycled, and of a class of slots few, as there are only so many in the
// process. Threads: the thread that drops or makes. Fork: as the block cache.
// Tested by: tests/runtime/memory/tensor_recycler_test.cpp
#pragma once

#include <cstdint>
#include <cstring>

#include "runtime/memory/block.h"
#include "runtime/memory/block_cache.h"
#include "runtime/memory/object_pool.h"
#include "runtime/memory/tensor_template.h"

namespace tjit::runtime {
namespace recycled {

// The words of libtorch's objects that have no accessor, or none that is
// inlined; LieAsExpected() looks whether they are where they were in 2.13.
inline constexpr std::size_t kCountsWord = 1;    // of every intrusive target
inline constexpr std::size_t kAutogradWord = 3;  // of a TensorImpl
inline constexpr std::size_t kExtraWord = 4;
inline constexpr std::size_t kVersionWord = kVersionAt / 8;
inline constexpr std::size_t kPyObjectWord = 6;
inline constexpr std::size_t kSizeWord = 6;  // of a StorageImpl
inline constexpr std::size_t kFlagsWord = 7;
inline constexpr std::size_t kMaterializerWord = 8;
inline constexpr std::size_t kAllocatorWord = 9;
inline constexpr std::size_t kStoragePyObjectWord = 10;
inline constexpr std::size_t kStorageExtraWord = 11;

// Of the flags: all but the one that says that there is a materialiser, and
// the padding.
inline constexpr std::uint64_t kFlagsMask = 0x00ffffff'00ffffff;
inline constexpr std::uint64_t kResizable = 0x100;  // and no other

inline std::uint64_t Word(const void* object, std::size_t i) {
  std::uint64_t word;
  std::memcpy(&word, static_cast<const char*>(object) + 8 * i, sizeof(word));
  return word;
}

// True if of a storage's flags `resizable` is set and no other, but for the one
// of the materialiser, whatever it is.
inline bool IsOnlyResizable(const void* storage) {
  return (Word(storage, kFlagsWord) & kFlagsMask) == kResizable;
}

// True if nobody else has a strong or weak reference, or a Python object.
inline bool IsOnlyReference(const void* object) {
  const auto* counts = reinterpret_cast<const std::atomic<std::uint64_t>*>(
      static_cast<const char*>(object) + 8 * kCountsWord);
  return counts->load(std::memory_order_acquire) == c10::detail::kUniqueRef;
}

inline std::uint64_t WordOf(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

}  // namespace recycled

class TensorRecycler {
 public:
  // What a result of `bytes` is looked for by; kNone: not kept.
  static constexpr std::uint8_t kNone = 255;
  static std::uint8_t ClassOf(std::uint64_t bytes);
  // True if what is kept has an address only (reserved_block.h): for a result
  // that dies.
  static constexpr bool IsOfSlots(unsigned size_class) {
    return size_class >= kLocalClasses && size_class != kNone;
  }

  // The program dropped the last reference. True: the tensor is nobody's any
  // more, and is kept or gone. False: nothing has changed.
  static bool Recycle(PooledTensor* tensor);

  // A tensor of `form` over a block of `bytes`, as MakeTensor() and
  // AllocateBlock(), of slots AllocateDyingBlock(), make them, quiet and armed
  // with `hook`. Null if none is recycled. REQUIRES: ClassOf(bytes) is
  // `size_class`, not kNone; where IsOfSlots(size_class) the result dies.
  static PooledTensor* Acquire(unsigned size_class, std::uint64_t bytes,
                               const TensorTemplate::Bytes& form,
                               std::uint32_t version, c10::MaterializeFn hook,
                               Block** block);

  // Takes the tensor off its block.
  static void Dismantle(Block* block);

 private:
  static bool IsAsMade(const PooledTensor& tensor, Block** block,
                       bool* is_slot);
  static void Destroy(PooledTensor* tensor);
  // Of a next class that serves as well, with tensors on it; or null.
  static FreeList* LargerList(ThreadCache* cache, unsigned size_class);
};

[[gnu::always_inline]] inline PooledTensor* TensorRecycler::Acquire(
    unsigned size_class, std::uint64_t bytes, const TensorTemplate::Bytes& form,
    std::uint32_t version, c10::MaterializeFn hook, Block** taken) {
  ThreadCache* const cache = thread_cache;
  if (cache == nullptr) return nullptr;
  FreeList* list = &cache->recycled_lists[size_class];
  if (list->head == nullptr) {
    list = LargerList(cache, size_class);
    if (list == nullptr) return nullptr;
  }
  Block* const block = list->head;
  PooledTensor* const tensor = block->recycled_tensor();
  c10::VariableVersion& counter = tensor->version_counter_;
  if (counter.enabled() != form.has_version) [[unlikely]] {
    counter = form.has_version ? c10::VariableVersion(version)
                               : c10::VariableVersion();
  } else if (form.has_version && counter.current_version() != version) {
    counter.set_version(version);
  }
  // From here on nothing throws.
  if (IsOfSlots(size_class)) {
    list->Pop();
  } else {
    PopBlock(cache, list, block->size_class, bytes);
  }
  --cache->recycled;
  block->recycled = false;
  block->bytes = bytes;
  block->ForgetUses();
  block->program.store(true, std::memory_order_relaxed);
  block->switches.store(0, std::memory_order_relaxed);
  c10::StorageImpl* const storage = tensor->storage_.unsafeGetStorageImpl();
  if (recycled::Word(storage, recycled::kSizeWord) != bytes)
    storage->unsafe_set_nbytes(bytes);
  if (recycled::Word(storage, recycled::kMaterializerWord) !=
      reinterpret_cast<std::uintptr_t>(hook)) {
    storage->clear_materializer();
    storage->set_materializer(hook);
  }
  CopyShape(form, tensor);
  *taken = block;
  return tensor;
}

}  // namespace tjit::runtime

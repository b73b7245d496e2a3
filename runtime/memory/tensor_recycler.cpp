#include "runtime/memory/tensor_recycler.h"

#include <c10/core/CPUAllocator.h>

#include "runtime/memory/reserved_block.h"

namespace tjit::runtime {

using namespace recycled;

namespace {

bool LieAsExpected() {
  const c10::MaterializeFn hook = [](c10::StorageImpl*) {};
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(4711), c10::DataPtr(),
      c10::GetCPUAllocator(), /*resizable=*/true);
  const c10::StorageImpl* s = storage.get();
  storage->set_materializer(hook);
  const bool as_expected =
      sizeof(c10::StorageImpl) == 96 && IsOnlyReference(s) &&
      Word(s, kSizeWord) == 4711 && IsOnlyResizable(s) &&
      Word(s, kMaterializerWord) == reinterpret_cast<std::uintptr_t>(hook) &&
      Word(s, kAllocatorWord) == WordOf(storage->allocator()) &&
      storage->pyobj_slot() ==
          reinterpret_cast<const c10::impl::PyObjectSlot*>(s) +
              kStoragePyObjectWord &&
      Word(s, kStorageExtraWord) == 0;
  storage->set_received_cuda(true);
  const void* const extra = &storage->get_extra_meta();
  return as_expected && !IsOnlyResizable(s) &&
         Word(s, kStorageExtraWord) == WordOf(extra);
}

const bool g_lie_as_expected = LieAsExpected();

// The same class for all: of a storage that tjit made.
const void* const g_storage_vtable = [] {
  const PooledStorage storage(c10::StorageImpl::use_byte_size_t(),
                              c10::SymInt(0), c10::DataPtr(),
                              c10::GetCPUAllocator(), /*resizable=*/true);
  return reinterpret_cast<const void*>(Word(&storage, 0));
}();

constexpr std::uint32_t kMaxRecycled = kMaxPooled;
constexpr std::uint32_t kMaxRecycledSlots = 8;  // of a class

static_assert(SizeClassOf(kMinReservedBytes) < kLocalClasses);

// Of a block that has an address and no memory, and nobody was told of it.
constexpr std::uint8_t kEmptySlot =
    Block::kQuiet | Block::kSlot | Block::kReserved;

FreeList* SlotList(ThreadCache* cache, const Block& block) {
  return &cache->recycled_lists[kLocalClasses + block.size_class];
}

}  // namespace

std::uint8_t TensorRecycler::ClassOf(std::uint64_t bytes) {
  if (!kPoolsObjects || !g_lie_as_expected || bytes == 0 ||
      bytes > kMaxReservedBytes) {
    return kNone;
  }
  if (MayFault(bytes)) {
    return static_cast<std::uint8_t>(kLocalClasses + SlotClassOf(bytes));
  }
  return static_cast<std::uint8_t>(SizeClassOf(bytes));
}

[[gnu::always_inline]] inline bool TensorRecycler::IsAsMade(
    const PooledTensor& tensor, Block** block, bool* is_slot) {
  const c10::StorageImpl* const storage =
      tensor.storage_.unsafeGetStorageImpl();
  const void* const version =
      reinterpret_cast<const void*>(Word(&tensor, kVersionWord));
  if (storage == nullptr ||
      (Word(&tensor, kAutogradWord) | Word(&tensor, kExtraWord) |
       Word(&tensor, kPyObjectWord)) != 0 ||
      tensor.sizes_and_strides_.size() >
          C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE ||
      (version != nullptr && !IsOnlyReference(version)) ||
      Word(storage, 0) != WordOf(g_storage_vtable) ||
      !IsOnlyReference(storage) ||
      !IsOnlyResizable(storage) ||
      (Word(storage, kStoragePyObjectWord) |
       Word(storage, kStorageExtraWord)) != 0) {
    return false;
  }
  const c10::DataPtr& p =
      const_cast<c10::StorageImpl*>(storage)->_mutable_data_ptr_no_checks();
  char* const data = static_cast<char*>(p.get());
  if (data == nullptr || p.get_context() != data ||
      p.get_deleter() != &ReleaseBlock) {
    return false;
  }
  Block* const b = reinterpret_cast<Block*>(data - sizeof(Block));
  const std::uint8_t kind = KindOf(b).load(std::memory_order_acquire);
  *block = b;
  *is_slot = kind == kEmptySlot;
  return (kind == Block::kQuiet || *is_slot) &&
         b->bytes == Word(storage, kSizeWord) &&
         !b->exposed.load(std::memory_order_relaxed) &&
         b->shared_use.load(std::memory_order_seq_cst) == 0;
}

FreeList* TensorRecycler::LargerList(ThreadCache* cache, unsigned size_class) {
  const unsigned c = ClassWithFree(size_class, [cache](unsigned candidate) {
    return candidate < kLocalClasses &&
           cache->recycled_lists[candidate].head != nullptr;
  });
  return c == size_class ? nullptr : &cache->recycled_lists[c];
}

// Its block is somebody else's by now.
[[gnu::noinline]] void TensorRecycler::Destroy(PooledTensor* tensor) {
  static_cast<void>(tensor->storage_.unsafeGetStorageImpl()
                        ->_mutable_data_ptr_no_checks()
                        .release_context());
  tensor->~PooledTensor();
  PooledTensor::Memory::Release(tensor);
}

[[gnu::hot]] bool TensorRecycler::Recycle(PooledTensor* tensor) {
  Block* block = nullptr;
  bool is_slot = false;
  if (!kPoolsObjects || !g_lie_as_expected ||
      !IsAsMade(*tensor, &block, &is_slot)) {
    return false;
  }
  ThreadCache* const cache = thread_cache;
  if (cache == nullptr || cache->recycled >= kMaxRecycled) return false;
  if (is_slot ? SlotList(cache, *block)->count >= kMaxRecycledSlots
              : !HasRoomFor<&ThreadCache::recycled_lists>(*cache, *block)) {
    return false;
  }
  if (block->owner.load(std::memory_order_acquire) != nullptr &&
      TakeOverDeadBlock(block)) {
    Destroy(tensor);
    return true;
  }
  // From here on nobody else knows it.
  if (is_slot && KindOf(block).load(std::memory_order_acquire) != kEmptySlot)
      [[unlikely]]
    return false;
  block->program.store(false, std::memory_order_relaxed);
  block->recycled = true;
  block->SetRecycledTensor(tensor);
  ++cache->recycled;
  if (is_slot) {
    SlotList(cache, *block)->Push(block);
  } else {
    PushBlock<&ThreadCache::recycled_lists>(cache, block);
  }
  return true;
}

void TensorRecycler::Dismantle(Block* block) {
  block->recycled = false;
  if (thread_cache != nullptr) --thread_cache->recycled;
  Destroy(block->recycled_tensor());
}

void PooledTensor::operator delete(PooledTensor* tensor,
                                   std::destroying_delete_t) {
  if (TensorRecycler::Recycle(tensor)) return;
  tensor->~PooledTensor();
  Memory::Release(tensor);
}

void Dismantle(Block* block) { TensorRecycler::Dismantle(block); }

}  // namespace tjit::runtime

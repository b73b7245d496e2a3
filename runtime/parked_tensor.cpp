#include "runtime/parked_tensor.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>

#include "runtime/block_cache.h"
#include "runtime/faulting_block.h"

namespace tjit::runtime {
namespace {

// The words of libtorch's objects that have no accessor, or none that is
// inlined; LieAsExpected() looks whether they are where they were in 2.13.
constexpr std::size_t kCountsWord = 1;    // of every intrusive target
constexpr std::size_t kAutogradWord = 3;  // of a TensorImpl
constexpr std::size_t kExtraWord = 4;
constexpr std::size_t kVersionWord = kVersionAt / 8;
constexpr std::size_t kPyObjectWord = 6;
constexpr std::size_t kSizeWord = 6;  // of a StorageImpl
constexpr std::size_t kFlagsWord = 7;
constexpr std::size_t kMaterializerWord = 8;
constexpr std::size_t kAllocatorWord = 9;
constexpr std::size_t kStoragePyObjectWord = 10;
constexpr std::size_t kStorageExtraWord = 11;

// Of the flags: all but the one that says that there is a materialiser, and
// the padding.
constexpr std::uint64_t kFlagsMask = 0x00ffffff'00ffffff;
constexpr std::uint64_t kResizable = 0x100;  // and no other

inline std::uint64_t Word(const void* object, std::size_t i) {
  std::uint64_t word;
  std::memcpy(&word, static_cast<const char*>(object) + 8 * i, sizeof(word));
  return word;
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

bool LieAsExpected() {
  const c10::MaterializeFn hook = [](c10::StorageImpl*) {};
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(4711), c10::DataPtr(),
      c10::GetCPUAllocator(), /*resizable=*/true);
  const c10::StorageImpl* s = storage.get();
  storage->set_materializer(hook);
  const bool as_expected =
      sizeof(c10::StorageImpl) == 96 && IsOnlyReference(s) &&
      Word(s, kSizeWord) == 4711 &&
      (Word(s, kFlagsWord) & kFlagsMask) == kResizable &&
      Word(s, kMaterializerWord) == reinterpret_cast<std::uintptr_t>(hook) &&
      Word(s, kAllocatorWord) == WordOf(storage->allocator()) &&
      storage->pyobj_slot() ==
          reinterpret_cast<const c10::impl::PyObjectSlot*>(s) +
              kStoragePyObjectWord &&
      Word(s, kStorageExtraWord) == 0;
  storage->set_received_cuda(true);
  const void* const extra = &storage->get_extra_meta();
  return as_expected && (Word(s, kFlagsWord) & kFlagsMask) != kResizable &&
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

constexpr std::uint32_t kMaxParked = kMaxPooled;

PooledTensor* TensorOn(const Block* block) {
  return reinterpret_cast<PooledTensor*>(
      block->last_write.load(std::memory_order_relaxed));
}

}  // namespace

std::uint8_t ParkedTensor::ClassOf(std::uint64_t bytes) {
  if (!kPoolsObjects || !g_lie_as_expected || bytes == 0 || MayFault(bytes) ||
      bytes > kMaxClassBytes || SizeClassOf(bytes) >= kLocalClasses) {
    return kNone;
  }
  return static_cast<std::uint8_t>(SizeClassOf(bytes));
}

[[gnu::always_inline]] inline bool ParkedTensor::IsAsMade(
    const PooledTensor& tensor, Block** block) {
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
      (Word(storage, kFlagsWord) & kFlagsMask) != kResizable ||
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
  *block = b;
  return b->kind == Block::kQuiet && b->bytes == Word(storage, kSizeWord) &&
         !b->exposed.load(std::memory_order_relaxed) &&
         b->shared_use.load(std::memory_order_seq_cst) == 0;
}

// Its block is somebody else's by now.
[[gnu::noinline]] void ParkedTensor::Destroy(PooledTensor* tensor) {
  static_cast<void>(tensor->storage_.unsafeGetStorageImpl()
                        ->_mutable_data_ptr_no_checks()
                        .release_context());
  tensor->~PooledTensor();
  PooledTensor::Memory::Give(tensor);
}

[[gnu::hot]] bool ParkedTensor::Park(PooledTensor* tensor) {
  Block* block = nullptr;
  if (!kPoolsObjects || !g_lie_as_expected || !IsAsMade(*tensor, &block)) {
    return false;
  }
  ThreadCache* const cache = thread_cache;
  if (cache == nullptr || cache->parked >= kMaxParked ||
      !HasRoomFor(*cache, *block)) {
    return false;
  }
  if (block->owner.load(std::memory_order_acquire) != nullptr &&
      TakeOverDeadBlock(block)) {
    Destroy(tensor);
    return true;
  }
  block->program.store(false, std::memory_order_relaxed);
  block->parked = true;
  block->last_write.store(WordOf(tensor), std::memory_order_relaxed);
  ++cache->parked;
  PushBlock(cache, block);
  return true;
}

[[gnu::hot]] PooledTensor* ParkedTensor::Take(unsigned size_class,
                                              std::uint64_t bytes,
                                              const TensorForm::Bytes& form,
                                              std::uint32_t version,
                                              c10::MaterializeFn hook) {
  ThreadCache* const cache = thread_cache;
  if (cache == nullptr) return nullptr;
  Block* const block = cache->lists[size_class].head;
  if (block == nullptr || !block->parked) return nullptr;
  PooledTensor* const tensor = TensorOn(block);
  PopBlock(cache, size_class, bytes);
  --cache->parked;
  block->parked = false;
  block->bytes = bytes;
  block->last_use.store(0, std::memory_order_relaxed);
  block->last_write.store(0, std::memory_order_relaxed);
  block->program.store(true, std::memory_order_relaxed);
  block->switches.store(0, std::memory_order_relaxed);
  c10::StorageImpl* const storage = tensor->storage_.unsafeGetStorageImpl();
  if (Word(storage, kSizeWord) != bytes) storage->unsafe_set_nbytes(bytes);
  if (Word(storage, kMaterializerWord) !=
      reinterpret_cast<std::uintptr_t>(hook)) {
    storage->clear_materializer();
    storage->set_materializer(hook);
  }
  c10::VariableVersion& counter = tensor->version_counter_;
  if (counter.enabled() != form.has_version) [[unlikely]] {
    counter = form.has_version ? c10::VariableVersion(version)
                               : c10::VariableVersion();
  } else if (form.has_version && counter.current_version() != version) {
    counter.set_version(version);
  }
  CopyShape(form, tensor);
  return tensor;
}

void ParkedTensor::TakeApart(Block* block) {
  block->parked = false;
  if (thread_cache != nullptr) --thread_cache->parked;
  Destroy(TensorOn(block));
}

void PooledTensor::operator delete(PooledTensor* tensor,
                                   std::destroying_delete_t) {
  if (ParkedTensor::Park(tensor)) return;
  tensor->~PooledTensor();
  Memory::Give(tensor);
}

void TakeApart(Block* block) { ParkedTensor::TakeApart(block); }

}  // namespace tjit::runtime

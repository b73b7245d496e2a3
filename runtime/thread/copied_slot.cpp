#include "runtime/thread/copied_slot.h"

#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "runtime/platform/test_hooks.h"
#include "support/mutex.h"

namespace tjit::runtime {
namespace {

constexpr std::uint64_t kLine = 64;

// A copy lies in its block as the memory does in a line of the cache: some
// kernels of MKL choose their order of sums by that.
std::int64_t LeadOf(const char* source) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(source) %
                                   kLine);
}

// The copy of the byte at `at`.
const char* CopyOf(const SlotBinding& slot, const char* at) {
  return slot.block->data + LeadOf(slot.source) + (at - slot.source);
}

}  // namespace

ByteRange RangeOf(const c10::TensorImpl* impl) {
  const c10::StorageImpl* storage =
      impl->unsafe_storage().unsafeGetStorageImpl();
  const c10::IntArrayRef sizes = impl->sizes(), strides = impl->strides();
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    elements += (sizes[d] - 1) * strides[d];
  }
  const auto itemsize = static_cast<std::int64_t>(impl->itemsize());
  return {static_cast<const char*>(storage->data()) +
              impl->storage_offset() * itemsize,
          static_cast<std::uint64_t>(elements * itemsize)};
}

bool MayBeCopied(const c10::StorageImpl* storage) {
  const Block* block = BlockOf(storage);
  return block == nullptr || block->exposed.load(std::memory_order_relaxed);
}

bool CopyCovers(const SlotBinding& slot, const ByteRange& range) {
  const std::uint64_t size = slot.block->bytes - kLine;
  return range.begin >= slot.source &&
         range.begin + range.size <= slot.source + size;
}

bool HasBytesOf(const SlotBinding& slot, const ByteRange& range) {
  return std::memcmp(CopyOf(slot, range.begin), range.begin, range.size) == 0;
}

bool CopyHolds(const SlotBinding& slot, const ByteRange& range,
               std::int64_t offset) {
  return CopyCovers(slot, range) &&
         slot.block->data + slot.shift + offset == CopyOf(slot, range.begin) &&
         (Planted(Defect::kStaleSnapshot) || HasBytesOf(slot, range));
}

void AddCopy(const c10::TensorImpl* impl, std::int64_t offset, Run* run) {
  AddCopyOf(RangeOf(impl), offset, run);
}

void AddCopyOf(const ByteRange& range, std::int64_t offset, Run* run) {
  SlotBinding slot;
  slot.block = AllocateBlock(range.size + kLine, /*quiet=*/true);
  slot.block->program.store(false, std::memory_order_relaxed);
  slot.source = range.begin;
  const std::int64_t lead = LeadOf(range.begin);
  std::memcpy(slot.block->data + lead, range.begin, range.size);
  slot.shift = lead - offset;
  slot.copied = true;
  run->slots.push_back(slot);
  run->copied_bytes += range.size;
}

void FreezeCopies(std::uint32_t step, std::size_t from, Run* run) {
  constexpr std::uint64_t kFew = 16;
  // Of all threads, as libtjit's thread storage is scarce. Never destroyed.
  static Mutex mutex;
  static auto& first =
      *new std::map<std::pair<std::uint32_t, std::size_t>, std::string>;
  const MutexLock lock(mutex);
  for (std::size_t s = from; s < run->slots.size(); ++s) {
    const SlotBinding& slot = run->slots[s];
    if (!slot.copied || slot.block->bytes > kLine + kFew) continue;
    char* const copy = slot.block->data + LeadOf(slot.source);
    const std::uint64_t size = slot.block->bytes - kLine;
    const auto [known, is_new] =
        first.try_emplace({step, s}, std::string(copy, size));
    std::memcpy(copy, known->second.data(), known->second.size());
  }
}

std::int32_t CopiedSlot(const Run& run, const ByteRange& range,
                        std::int64_t offset) {
  for (std::size_t s = run.slots.size(); s-- > 0;) {
    const SlotBinding& slot = run.slots[s];
    if (slot.copied && CopyHolds(slot, range, offset)) {
      return static_cast<std::int32_t>(s);
    }
  }
  return -1;
}

}  // namespace tjit::runtime

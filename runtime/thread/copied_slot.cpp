#include "runtime/thread/copied_slot.h"

#include <cstring>

#include "runtime/platform/test_hooks.h"

namespace tjit::runtime {

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

bool CopyCovers(const SlotBinding& slot, const ByteRange& range) {
  return range.begin >= slot.source &&
         range.begin + range.size <= slot.source + slot.block->bytes;
}

bool CopyHolds(const SlotBinding& slot, const ByteRange& range,
               std::int64_t offset) {
  return CopyCovers(slot, range) &&
         slot.shift + offset == range.begin - slot.source &&
         (Planted(Defect::kStaleSnapshot) ||
          std::memcmp(slot.block->data + (range.begin - slot.source),
                      range.begin, range.size) == 0);
}

SlotBinding CopyBinding(const c10::TensorImpl* impl, std::int64_t offset) {
  const ByteRange range = RangeOf(impl);
  SlotBinding slot;
  slot.block = AllocateBlock(range.size, /*quiet=*/true);
  slot.block->program.store(false, std::memory_order_relaxed);
  std::memcpy(slot.block->data, range.begin, range.size);
  slot.source = range.begin;
  slot.shift = -offset;  // the copy begins with the first element
  slot.copied = true;
  return slot;
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

// Slots whose value was copied at the call: memory that is exposed or foreign
// and only read (Access::kCopy in match.h).
//
// Such a slot has the bytes that one access reads, and is known by where they
// were. That says little: the storage may die and another one lie there, or the
// program may fill it anew. So a copy stands for memory only while it holds the
// same bytes.
// Thread: as the Run. Tested by: tests/runtime/thread/copied_slots_test.cpp
#pragma once

#include <c10/core/TensorImpl.h>

#include <cstdint>

#include "runtime/call/trace_run.h"

namespace tjit::runtime {

// The bytes from the first to the last element of a tensor.
struct ByteRange {
  const char* begin;
  std::uint64_t size;
};
// REQUIRES: plain, not empty, over memory of the CPU.
ByteRange RangeOf(const c10::TensorImpl* impl);

// True if ops copy what they read of it: memory of others, or exposed. Only
// that may be looked at here, as all other may be pending.
bool MayBeCopied(const c10::StorageImpl* storage);

// REQUIRES (all): slot.copied. True if the copy is of that memory, all of it.
bool CopyCovers(const SlotBinding& slot, const ByteRange& range);
// True if it has the bytes that are there now. REQUIRES: CopyCovers().
bool HasBytesOf(const SlotBinding& slot, const ByteRange& range);
// Both, where an access begins that is recorded at `offset`, in bytes.
bool CopyHolds(const SlotBinding& slot, const ByteRange& range,
               std::int64_t offset);

// Adds a slot with a private copy of what the tensor reads. `offset`: of its
// first element in the record, in bytes. THROWS: without memory; no slot then.
void AddCopy(const c10::TensorImpl* impl, std::int64_t offset, Run* run);
// The same of these bytes.
void AddCopyOf(const ByteRange& range, std::int64_t offset, Run* run);

// Defect::kFrozenConstant: the copies of a few numbers from slot `from` on get
// the bytes that they had when the step was followed first. `step`: its node.
void FreezeCopies(std::uint32_t step, std::size_t from, Run* run);

// The last slot of the run whose copy holds what is there now, or -1.
std::int32_t CopiedSlot(const Run& run, const ByteRange& range,
                        std::int64_t offset);

}  // namespace tjit::runtime

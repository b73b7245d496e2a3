// Slots whose value was copied at the call: small memory that is exposed or
// foreign and only read (Access::kCopy in match.h).
//
// Such a slot is known by the address of the program's StorageImpl, and that
// says little: the storage may die and another one have its address, or the
// program may fill it anew. So a copy stands for a storage only while it holds
// the same bytes.
// Thread: as the Run. Tested by: tests/runtime/thread/copied_slots_test.cpp
#pragma once

#include <c10/core/StorageImpl.h>

#include "runtime/call/trace_run.h"

namespace tjit::runtime {

// REQUIRES: slot.copied. True if the copy has the bytes of `storage`, all of
// them. Defined in match.cpp.
bool CopyHolds(const SlotBinding& slot, const c10::StorageImpl* storage);

}  // namespace tjit::runtime

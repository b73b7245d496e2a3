// What stands for the slots of a plan that were there before the call.
//
// Threads: who replays the plan.
// Tested by: tests/runtime/thread/jit_*_test.cpp
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstdint>

#include "runtime/call/plain_tensor.h"
#include "runtime/memory/block.h"
#include "runtime/thread/functions/function_calls.h"
#include "runtime/thread/functions/function_plan.h"
#include "runtime/thread/match.h"

namespace tjit::runtime {

struct OutsideStorage {
  c10::StorageImpl* storage;
  std::int64_t shift;  // see SlotBinding::shift
};

// REQUIRES: the slot is of an argument, or captured.
inline OutsideStorage OutsideOf(const FunctionPlan& plan,
                                const FunctionSlot& slot,
                                const FunctionInputs& inputs) {
  if (slot.kind == FunctionSlot::Kind::kCaptured) {
    return {plan.captured[slot.index].storage._unsafe_get_target(), 0};
  }
  const c10::TensorImpl* const impl =
      inputs.tensors[slot.index]->unsafeGetTensorImpl();
  return {StorageOf(impl),
          ShiftOf(impl, plan.key.arguments[slot.index].geometry)};
}

// True if what steps use of it is a part of the storage.
inline bool LiesIn(const FunctionSlot& slot, const c10::StorageImpl& storage,
                   std::int64_t shift) {
  return slot.begin + shift >= 0 &&
         slot.end + shift <= static_cast<std::int64_t>(storage.nbytes());
}

// True if the storage has the size that was recorded, or one that serves: reads
// may be of a part of a storage of any size, as HasSizeOf() in match.cpp says.
inline bool HasSizeFor(const FunctionSlot& slot,
                       const c10::StorageImpl& storage, const Block& block) {
  if (storage.nbytes() == slot.bytes) return true;
  const auto used = static_cast<std::uint64_t>(slot.end - slot.begin);
  return !slot.written && used < slot.bytes && used < block.bytes;
}

}  // namespace tjit::runtime

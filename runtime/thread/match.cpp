#include "runtime/thread/match.h"

#include <c10/core/TensorImpl.h>

#include <cstring>

#include "recorder/step_shape.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/thread/copied_slot.h"
#include "support/policy.h"

namespace tjit::runtime {

bool CopyHolds(const SlotBinding& slot, const c10::StorageImpl* storage) {
  return slot.source == storage && storage->nbytes() == slot.block->bytes &&
         std::memcmp(slot.block->data, storage->data(), slot.block->bytes) == 0;
}

bool MayBecome(const CallFrame& frame, std::uint32_t i,
               const ScalarRecord& recorded) {
  const ScalarValue& now = frame.scalars[i];
  if (Planted(Defect::kSkippedScalarGuard)) return true;
  return recorded.may_vary && recorded.value.type == now.type &&
         ValueClass(frame.entry.PolicyOfScalar(i), now) == recorded.value_class;
}

namespace {

// A handful of words just written one by one: memcmp() would load them wider
// than they were stored, and wait for the stores.
bool SameWords(const std::vector<std::uint64_t>& recorded,
               const FrameArray<std::uint64_t, 32>& now) {
  if (recorded.size() != now.size()) return false;
  for (std::uint32_t i = 0; i < now.size(); ++i) {
    if (recorded[i] != now[i]) return false;
  }
  return true;
}

bool MatchesScalar(const CallFrame& frame, std::uint32_t i,
                   const ScalarRecord& recorded) {
  return recorded.value.SameBits(frame.scalars[i]) ||
         MayBecome(frame, i, recorded);
}

// The parts of MatchShape(), of calls of the step's op in its context.
bool MatchesStatics(const CallFrame& frame, const StepRecord& step) {
  return step.args.size() == frame.tensors.size() &&
         step.scalars.size() == frame.scalars.size() && frame.recordable &&
         SameWords(step.statics, frame.statics);
}
// REQUIRES: MatchesStatics().
bool MatchesScalars(const CallFrame& frame, const StepRecord& step) {
  std::uint32_t i = 0;
  for (const ScalarRecord& recorded : step.scalars) {
    if (!MatchesScalar(frame, i++, recorded)) return false;
  }
  return true;
}
// `impl` may be null: undefined.
bool MatchesArg(const c10::TensorImpl* impl, const ArgRecord& arg) {
  if (impl == nullptr) return arg.slot == kNoSlot;
  return arg.slot != kNoSlot &&
         (SameGeometry(impl, arg.geometry) || Planted(Defect::kSkippedGuard));
}

}  // namespace

bool MatchShape(const CallFrame& frame, std::uint32_t context,
                const StepRecord& step, BailReason* why) {
  if (step.op != frame.entry.id) {
    *why = BailReason::kOpDiffers;
    return false;
  }
  if (step.context != context) {
    *why = BailReason::kContextDiffers;
    return false;
  }
  if (step.kind == StepKind::kAtCall) return true;
  if (!MatchesStatics(frame, step)) {
    *why = BailReason::kStaticDiffers;
    return false;
  }
  if (!MatchesScalars(frame, step)) {
    *why = BailReason::kScalarDiffers;
    return false;
  }
  const TensorRef* ref = frame.tensors.begin();
  for (const ArgRecord& arg : step.args) {
    if (!MatchesArg((ref++)->impl, arg)) {
      *why = BailReason::kMetaDiffers;
      return false;
    }
  }
  return true;
}

std::uint64_t ShapeOf(const CallFrame& frame, std::uint32_t context) {
  StepShape shape(frame.entry.id, context);
  for (const TensorRef& ref : frame.tensors) {
    if (ref.impl == nullptr || !HasPlainVtable(ref.impl)) {
      shape.AddNoTensor();
      continue;
    }
    shape.AddTensor(static_cast<std::uint8_t>(
                        c10::typeMetaToScalarType(ref.impl->dtype())),
                    ref.impl->sizes().size(), ref.impl->sizes().data(),
                    ref.impl->strides().data());
  }
  return shape.hash();
}

Access AccessOf(c10::StorageImpl* storage, bool written, Block** block) {
  if (storage == nullptr) return Access::kNo;
  Block* b = BlockOf(storage);
  if (b == nullptr) b = AdoptStorage(storage);
  *block = b;
  if (b != nullptr &&
      !(b->exposed.load(std::memory_order_relaxed) &&
        !Planted(Defect::kMissedExposure))) {
    return Access::kBlock;
  }
  if (written || storage->nbytes() > policy::kMaxCopiedBytes ||
      storage->data_ptr().get() == nullptr || storage->device() != c10::kCPU) {
    return Access::kNo;
  }
  return Access::kCopy;
}

SlotBinding CopyBinding(const c10::StorageImpl* storage) {
  SlotBinding slot;
  slot.block = AllocateBlock(storage->nbytes(), /*quiet=*/true);
  slot.block->program.store(false, std::memory_order_relaxed);
  std::memcpy(slot.block->data, storage->data(), storage->nbytes());
  slot.source = storage;
  slot.copied = true;
  return slot;
}

namespace {

// The slot that was noted for `block` in this run, or -1. The address alone
// does not tell: after a flush in mid-run a value may die and its block be
// given out again.
std::int32_t RecordedSlot(const Run& run, const Block* block) {
  std::uint32_t slot = 0;
  if (block->is_shared()) {
    const auto it = run.shared_slots.find(block);
    if (it == run.shared_slots.end()) return -1;
    slot = it->second;
  } else {
    const std::uint64_t binding =
        block->binding.load(std::memory_order_relaxed);
    slot = static_cast<std::uint32_t>(binding & Run::kSlotMask);
    if (binding != run.BindingOf(slot)) return -1;
  }
  const bool bound =
      slot < run.slots.size() && run.slots[slot].block == block;
  return bound ? static_cast<std::int32_t>(slot) : -1;
}

}  // namespace

namespace {

// True if the block of slot `s` was given out anew since it was bound: what it
// holds is another storage's. Not known of a block that another thread bound.
bool IsGivenOutAnew(const Run& run, const Block* block, std::size_t s) {
  if (block->is_shared()) return false;
  const std::uint64_t binding = block->binding.load(std::memory_order_relaxed);
  if (binding == run.BindingOf(static_cast<std::uint32_t>(s))) return false;
  return binding == 0 || binding >> 48 == run.stream;
}

}  // namespace

std::int32_t BoundSlot(const Run& run, const c10::StorageImpl* storage,
                       const Block* block) {
  const bool exposed =
      block == nullptr || block->exposed.load(std::memory_order_relaxed);
  if (!exposed) {
    const std::int32_t slot = RecordedSlot(run, block);
    if (slot >= 0) return slot;
    const std::uint64_t binding =
        block->binding.load(std::memory_order_relaxed);
    // Allocated since, or bound by this thread in another run.
    if (!block->is_shared() &&
        (binding == 0 || binding >> 48 == run.stream)) {
      return -1;
    }
  }
  // Copied memory, or a block that another thread has bound since or that was
  // not shared yet when it was bound. The last copy is the one that may hold.
  for (std::size_t s = run.slots.size(); s-- > 0;) {
    const SlotBinding& slot = run.slots[s];
    if (slot.copied ? slot.source == storage
                    : (block != nullptr && slot.block == block &&
                       !IsGivenOutAnew(run, block, s))) {
      return static_cast<std::int32_t>(s);
    }
  }
  return -1;
}

void UnbindFrom(Run* run, std::size_t count) {
  if (count == 0 && !run->shared_slots.empty()) run->shared_slots.clear();
  if (run->slots.size() <= count) return;
  const auto first = run->slots.begin() + static_cast<std::ptrdiff_t>(count);
  for (auto slot = first; slot != run->slots.end(); ++slot) {
    if (slot->copied) FreeBlock(slot->block);
  }
  run->slots.erase(first, run->slots.end());
}

bool BindSlots(const CallFrame& frame, const TraceNode& node, Run* run,
               BailReason* why) {
  const std::size_t before = run->slots.size();
  const auto fail = [&](BailReason reason) {
    UnbindFrom(run, before);
    *why = reason;
    return false;
  };
  for (std::uint32_t i = 0; i < node.step.args.size(); ++i) {
    const ArgRecord& arg = node.step.args[i];
    if (arg.slot == kNoSlot) continue;
    c10::StorageImpl* storage = StorageOf(frame.tensors[i].impl);
    const auto s = static_cast<std::uint32_t>(arg.slot);
    if (s < run->slots.size()) {
      const SlotBinding& slot = run->slots[s];
      if (ShiftOf(frame.tensors[i].impl, arg.geometry) != slot.shift) {
        return fail(BailReason::kMetaDiffers);
      }
      if (slot.copied) {
        if (arg.written || !CopyHolds(slot, storage)) {
          return fail(BailReason::kInputExposed);
        }
        continue;
      }
      const Block* block = BlockOf(storage);
      // What pending ops own is not given out again: no need for its binding.
      const bool is_bound =
          block != nullptr &&
          (slot.owned ? slot.block == block
                      : RecordedSlot(*run, block) == arg.slot);
      if (!is_bound) {
        if (!Planted(Defect::kLostAlias)) {
          return fail(BailReason::kSlotDiffers);
        }
        continue;
      }
      if (block->exposed.load(std::memory_order_relaxed) &&
          !Planted(Defect::kMissedExposure)) {
        return fail(BailReason::kInputExposed);
      }
      continue;
    }
    Block* block = nullptr;
    const Access access = AccessOf(storage, arg.written, &block);
    if (access == Access::kNo) {
      return fail(block != nullptr ? BailReason::kInputExposed
                                   : BailReason::kInputForeign);
    }
    if (storage->nbytes() != node.new_slots[s - node.slot_begin].bytes) {
      return fail(BailReason::kMetaDiffers);
    }
    const std::int32_t bound = BoundSlot(*run, storage, block);
    // Two copies are only read, and of two moments: no aliases.
    const bool copied_twice = bound >= 0 && access == Access::kCopy &&
                              run->slots[bound].copied;
    if (bound >= 0 && !copied_twice && !Planted(Defect::kLostAlias)) {
      return fail(BailReason::kSlotDiffers);
    }
    if (access == Access::kCopy) {
      run->slots.push_back(CopyBinding(storage));
    } else {
      run->slots.emplace_back().block = block;
      run->Record(block, s);
    }
    run->slots.back().shift =
        Planted(Defect::kLostShift)
            ? 0
            : ShiftOf(frame.tensors[i].impl, arg.geometry);
  }
  return true;
}

}  // namespace tjit::runtime

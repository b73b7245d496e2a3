#include "runtime/thread/match.h"

#include <c10/core/TensorImpl.h>

#include <exception>

#include "recorder/step_shape.h"
#include "runtime/platform/test_hooks.h"
#include "runtime/thread/copied_slot.h"
#include "support/policy.h"

namespace tjit::runtime {

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

[[gnu::noinline]] bool OthersMayBecome(const CallFrame& frame,
                                       const TraceNode& node,
                                       const CompactStep& step) {
  for (std::uint32_t i = 0; i < step.scalar_count(); ++i) {
    if (!step.scalars()[i].SameBits(frame.scalars[i]) &&
        !MayBecome(frame, i, node.step.scalars[i])) {
      return false;
    }
  }
  return true;
}

namespace {

// MatchShape() by what following reads. Its reason is not known.
bool IsCompactStep(const CallFrame& frame, std::uint32_t context,
                   const TraceNode& node, const CompactStep& step) {
  if (!HasKindOf(frame, context, step) || !HasSameStatics(frame, step) ||
      !OthersMayBecome(frame, node, step)) {
    return false;
  }
  const CompactArg* arg = step.args();
  for (const TensorRef& ref : frame.tensors) {
    const TensorTemplate* form = (arg++)->form;
    if ((ref.impl == nullptr) != (form == nullptr)) return false;
    if (form != nullptr && !HasBytesOf(ref.impl, *form) &&
        !SameGeometry(ref.impl, form->geometry)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool MatchNode(const CallFrame& frame, std::uint32_t context,
               const TraceNode& node, BailReason* why) {
  BailReason nobody_asks = BailReason::kCount;
  if (const CompactStep* step = CompactStep::Of(node)) {
    if (IsCompactStep(frame, context, node, *step)) return true;
    if (why == nullptr) return false;
  }
  return MatchShape(frame, context, node.step,
                    why == nullptr ? &nobody_asks : why);
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

Access AccessOf(const OpEntry& op, const Run& run, const c10::TensorImpl* impl,
                bool written, Block** block) {
  c10::StorageImpl* storage = StorageOf(impl);
  if (storage == nullptr) return Access::kNo;
  Block* b = BlockOf(storage);
  if (b == nullptr) b = AdoptStorage(storage);
  *block = b;
  if (b != nullptr &&
      !(b->exposed.load(std::memory_order_relaxed) &&
        !Planted(Defect::kMissedExposure))) {
    return Access::kBlock;
  }
  if (written || !IsPlain(impl) || impl->numel() == 0 ||
      storage->data_ptr().get() == nullptr || storage->device() != c10::kCPU) {
    return Access::kNo;
  }
  const std::uint64_t limit =
      op.is_pointwise ? policy::kMaxCopiedOfPointwise : policy::kMaxCopiedBytes;
  const std::uint64_t size = RangeOf(impl).size;
  // A column of a matrix would be copied with all that lies between.
  const auto used = static_cast<std::uint64_t>(impl->numel()) *
                    static_cast<std::uint64_t>(impl->itemsize());
  const bool fits = size <= limit && size <= policy::kMaxCopiedSpread * used &&
                    run.copied_bytes + size <= policy::kMaxCopiedOfRun;
  return fits ? Access::kCopy : Access::kNo;
}

namespace {

constexpr std::uint32_t kNoNumber = ~std::uint32_t{0};

// The number that Run::Record() noted for `block` in this run, or kNoNumber. It
// is a hint: the step that it was noted for may not have matched.
std::uint32_t RecordedNumber(const Run& run, const Block* block) {
  if (block->is_shared()) {
    const auto it = run.shared_slots.find(block);
    return it == run.shared_slots.end() ? kNoNumber : it->second;
  }
  const std::uint64_t binding = block->binding.load(std::memory_order_relaxed);
  const auto slot = static_cast<std::uint32_t>(binding & Run::kSlotMask);
  return binding == run.BindingOf(slot) ? slot : kNoNumber;
}

// The slot that was noted for `block` in this run, or -1. The address alone
// does not tell: after a flush in mid-run a value may die and its block be
// given out again.
std::int32_t RecordedSlot(const Run& run, const Block* block) {
  const std::uint32_t slot = RecordedNumber(run, block);
  const bool bound =
      slot < run.slots.size() && run.slots[slot].block == block;
  return bound ? static_cast<std::int32_t>(slot) : -1;
}

// True if the binding word of `block` is as this thread left it: what it does
// not say of the run is not so. Another thread may have overwritten it.
bool HasOwnBinding(const Run& run, const Block* block) {
  if (block->is_shared()) return false;
  const std::uint64_t binding = block->binding.load(std::memory_order_relaxed);
  return binding == 0 || binding >> 48 == run.stream;
}

// True if the block of slot `s` was given out anew since it was bound: what it
// holds is another storage's. Not known of a block that another thread bound.
bool IsGivenOutAnew(const Run& run, const Block* block, std::size_t s) {
  return HasOwnBinding(run, block) && RecordedNumber(run, block) != s;
}

}  // namespace

std::int32_t BoundSlot(const Run& run, const Block* block) {
  if (block == nullptr) return -1;
  if (!block->exposed.load(std::memory_order_relaxed)) {
    const std::int32_t slot = RecordedSlot(run, block);
    if (slot >= 0) return slot;
    // Allocated since, or bound by this thread in another run.
    if (HasOwnBinding(run, block)) return -1;
  }
  // A block that another thread has bound since, or that was not shared yet
  // when it was bound.
  for (std::size_t s = run.slots.size(); s-- > 0;) {
    const SlotBinding& slot = run.slots[s];
    if (!slot.copied && slot.block == block && !IsGivenOutAnew(run, block, s)) {
      return static_cast<std::int32_t>(s);
    }
  }
  return -1;
}

bool MeetsItself(const CallFrame& frame, const StepRecord& step) {
  for (std::uint32_t i = 0; i < step.args.size(); ++i) {
    if (!step.args[i].written || step.args[i].slot == kNoSlot) continue;
    for (std::uint32_t j = 0; j < step.args.size(); ++j) {
      if (step.args[j].slot != kNoSlot &&
          step.args[j].slot != step.args[i].slot &&
          StorageOf(frame.tensors[j].impl) ==
              StorageOf(frame.tensors[i].impl)) {
        return true;
      }
    }
  }
  return false;
}

void UnbindFrom(Run* run, std::size_t count) {
  if (count == 0) {
    run->copied_bytes = 0;
    if (!run->shared_slots.empty()) run->shared_slots.clear();
  }
  if (run->slots.size() <= count) return;
  const auto first = run->slots.begin() + static_cast<std::ptrdiff_t>(count);
  for (auto slot = first; slot != run->slots.end(); ++slot) {
    if (slot->copied) FreeBlock(slot->block);
  }
  run->slots.erase(first, run->slots.end());
}

namespace {

// What a slot that is new with a call will be bound to.
struct NewBinding {
  const c10::TensorImpl* impl;
  Block* block;         // null: what `impl` reads is copied
  std::int64_t shift;   // see ShiftOf()
  std::int32_t shares;  // the slot that has its block already, or -1
};
using NewBindings = FrameArray<NewBinding, 8>;

// Compares the tensors of a call with the slots of a step. Nothing changes but
// the binding words of blocks that no slot has, which are hints.
class SlotMatch {
 public:
  SlotMatch(const CallFrame& frame, const TraceNode& node, Run* run,
            NewBindings* added)
      : frame_(frame), node_(node), args_(node), run_(*run), added_(*added) {}

  bool Holds() {
    for (std::uint32_t i = 0; i < args_.size(); ++i) {
      const SlotArgs::Arg arg = args_[i];
      if (arg.slot == kNoSlot) continue;
      const c10::TensorImpl* impl = frame_.tensors[i].impl;
      const std::int64_t shift = ShiftOf(impl, *arg.geometry);
      const auto s = static_cast<std::size_t>(arg.slot);
      const std::size_t bound = run_.slots.size();
      const bool holds =
          s < bound ? IsBound(arg, impl, shift)
          : s < bound + added_.size()
              ? IsAdded(added_[static_cast<std::uint32_t>(s - bound)], impl,
                        shift)
              : Add(arg, impl, shift);
      if (!holds) return false;
    }
    return !sees_shared_ || !MeetsItself(frame_, node_.step) ||
           Fail(BailReason::kSlotDiffers);
  }
  BailReason why() const { return why_; }

 private:
  bool Fail(BailReason why) {
    why_ = why;
    return false;
  }

  // A slot that a step before has used.
  bool IsBound(const SlotArgs::Arg& arg, const c10::TensorImpl* impl,
               std::int64_t shift) {
    const SlotBinding& slot = run_.slots[static_cast<std::size_t>(arg.slot)];
    sees_shared_ |= slot.shares;
    if (slot.copied) {
      const bool holds =
          !arg.written && MayBeCopied(StorageOf(impl)) &&
          CopyHolds(slot, RangeOf(impl), OffsetOf(*arg.geometry));
      return holds || Fail(BailReason::kInputExposed);
    }
    const Block* block = BlockOf(StorageOf(impl));
    if (block == nullptr || !IsSlotOf(block, arg.slot)) {
      return Planted(Defect::kLostAlias) || Fail(BailReason::kSlotDiffers);
    }
    if (shift != slot.shift) return Fail(BailReason::kPlaceDiffers);
    return !block->exposed.load(std::memory_order_relaxed) ||
           Planted(Defect::kMissedExposure) || Fail(BailReason::kInputExposed);
  }

  bool IsSlotOf(const Block* block, std::int32_t s) const {
    const SlotBinding& slot = run_.slots[static_cast<std::size_t>(s)];
    // What pending ops own is not given out again: no need for its binding.
    if (slot.owned) return slot.block == block;
    const std::int32_t recorded = RecordedSlot(run_, block);
    if (!slot.shares) return recorded == s;
    return slot.block == block && recorded >= 0 &&
           run_.slots[static_cast<std::size_t>(recorded)].shares;
  }

  // A slot that an argument before has used first.
  bool IsAdded(const NewBinding& added, const c10::TensorImpl* impl,
               std::int64_t shift) {
    if (StorageOf(added.impl) != StorageOf(impl) &&
        !Planted(Defect::kLostAlias)) {
      return Fail(BailReason::kSlotDiffers);
    }
    if (added.shift != shift) return Fail(BailReason::kPlaceDiffers);
    if (added.block != nullptr) return true;
    const ByteRange copied = RangeOf(added.impl), range = RangeOf(impl);
    return (range.begin >= copied.begin &&
            range.begin + range.size <= copied.begin + copied.size) ||
           Fail(BailReason::kPlaceDiffers);
  }

  bool Add(const SlotArgs::Arg& arg, const c10::TensorImpl* impl,
           std::int64_t shift) {
    Block* block = nullptr;
    const Access access =
        AccessOf(frame_.entry, run_, impl, arg.written, &block);
    if (access == Access::kCopy) {
      added_.push_back({impl, nullptr, shift, -1});
      return true;
    }
    if (access == Access::kNo) {
      return Fail(block != nullptr ? BailReason::kInputExposed
                                   : BailReason::kInputForeign);
    }
    const auto s = static_cast<std::uint32_t>(arg.slot);
    const SlotRecord& record = node_.new_slots[s - node_.slot_begin];
    if (!HasSizeOf(StorageOf(impl), record, arg, impl)) {
      return Fail(BailReason::kMetaDiffers);
    }
    const std::int32_t bound = SlotWith(block);
    if (bound >= 0 && !record.is_place() && !Planted(Defect::kLostAlias)) {
      return Fail(BailReason::kSlotDiffers);
    }
    if (bound < 0) run_.Record(block, s);
    sees_shared_ |= bound >= 0;
    added_.push_back(
        {impl, block, Planted(Defect::kLostShift) ? 0 : shift, bound});
    return true;
  }

  // A part that is read may lie in a storage of any size: a time step of a
  // sequence of any length. The slot is none that a plan may use again (see
  // FateOf()), as that needs the size of the record.
  static bool HasSizeOf(const c10::StorageImpl* storage,
                        const SlotRecord& record, const SlotArgs::Arg& arg,
                        const c10::TensorImpl* impl) {
    const std::uint64_t bytes = storage->nbytes();
    if (bytes == record.bytes) return true;
    if (arg.written || impl->numel() == 0) return false;
    const std::uint64_t size = RangeOf(impl).size;
    const auto begin = static_cast<std::uint64_t>(impl->storage_offset()) *
                       impl->itemsize();
    return size < record.bytes && size < bytes && begin + size <= bytes;
  }

  // The slot that has the block already, one that this call adds too, or -1.
  std::int32_t SlotWith(const Block* block) const {
    const std::uint32_t before = static_cast<std::uint32_t>(run_.slots.size());
    if (HasOwnBinding(run_, block)) {
      const std::uint32_t s = RecordedNumber(run_, block);
      const bool is_it = s < before ? run_.slots[s].block == block
                                    : s - before < added_.size() &&
                                          added_[s - before].block == block;
      return is_it ? static_cast<std::int32_t>(s) : -1;
    }
    const std::int32_t bound = BoundSlot(run_, block);
    if (bound >= 0) return bound;
    for (std::uint32_t i = 0; i < added_.size(); ++i) {
      if (added_[i].block == block) {
        return static_cast<std::int32_t>(before + i);
      }
    }
    return -1;
  }

  const CallFrame& frame_;
  const TraceNode& node_;
  const SlotArgs args_;
  Run& run_;
  NewBindings& added_;
  bool sees_shared_ = false;  // slots that share their storage
  BailReason why_ = BailReason::kCount;
};

void Bind(const NewBinding& added, Run* run) {
  if (added.block == nullptr) {
    const std::int64_t begin =
        added.impl->storage_offset() *
        static_cast<std::int64_t>(added.impl->itemsize());
    AddCopy(added.impl, begin - added.shift, run);
    return;
  }
  SlotBinding& slot = run->slots.emplace_back();
  slot.block = added.block;
  slot.shift = added.shift;
  if (added.shares < 0) return;  // its binding says so already
  slot.shares = true;
  run->slots[static_cast<std::size_t>(added.shares)].shares = true;
}

}  // namespace

bool BindSlots(const CallFrame& frame, const TraceNode& node, Run* run,
               BailReason* why) {
  NewBindings added;
  SlotMatch match(frame, node, run, &added);
  if (!match.Holds()) {
    *why = match.why();
    return false;
  }
  const std::size_t before = run->slots.size();
  try {
    for (const NewBinding& slot : added) Bind(slot, run);
    if (Planted(Defect::kFrozenConstant)) FreezeCopies(node.id, before, run);
  } catch (const std::exception&) {  // for a copy
    UnbindFrom(run, before);
    *why = BailReason::kOutOfMemory;
    return false;
  }
  return true;
}

}  // namespace tjit::runtime

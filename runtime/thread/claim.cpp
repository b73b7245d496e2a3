// The half of PendingQueue that claims blocks for a step: to be written by
// pending ops alone, or read by those of several threads.
#include "runtime/platform/test_hooks.h"
#include "runtime/segment/compact_step.h"
#include "runtime/thread/pending_queue.h"

namespace tjit::runtime {
namespace {

// Note [Places] in split_places.h: ops that are pending in `queue` may use the
// block over another slot, and a segment knows nothing of that. True if they
// must run before an access over this one.
bool MustRunBefore(const PendingQueue* queue, const SlotBinding& slot,
                   bool written) {
  const Block* block = slot.block;
  if (block->owner.load(std::memory_order_relaxed) != queue) return false;
  const std::uint8_t pending = block->pending.load(std::memory_order_relaxed);
  return written ? pending != 0 : (pending & Block::kPendingWrite) != 0;
}

}  // namespace

bool PendingQueue::ClaimSlots(const SlotArgs& args) {
  const std::size_t owned_before = run_.owned.size();
  const std::size_t readers_before = run_.readers.size();
  for (std::uint32_t i = 0; i < args.size(); ++i) {
    const SlotArgs::Arg arg = args[i];
    if (arg.slot == kNoSlot) continue;
    const auto s = static_cast<std::uint32_t>(arg.slot);
    const SlotBinding& slot = run_.slots[s];
    if (slot.copied || (slot.owned && !arg.written && !slot.shares)) continue;
    if (Planted(Defect::kMissedOverlap) && slot.block->owner == this) continue;
    if (!(slot.shares && MustRunBefore(this, slot, arg.written)) &&
        (arg.written ? ClaimToWrite(s) : ClaimToRead(s))) {
      continue;
    }
    while (run_.owned.size() > owned_before) {
      SlotBinding& claimed = run_.slots[run_.owned.back()];
      claimed.owned = false;
      claimed.block->owner.store(nullptr, std::memory_order_release);
      run_.owned.pop_back();
    }
    while (run_.readers.size() > readers_before) {
      SlotBinding& read = run_.slots[run_.readers.back()];
      read.reader = false;
      // The program still owns it: it is an argument of the call.
      static_cast<void>(read.block->DropReader());
      run_.readers.pop_back();
    }
    return false;
  }
  return true;
}

bool PendingQueue::MustRunFirst(const StepRecord& step) const {
  for (const ArgRecord& arg : step.args) {
    if (arg.slot == kNoSlot) continue;
    const SlotBinding& slot = run_.slots[static_cast<std::size_t>(arg.slot)];
    if (slot.copied) continue;
    const bool owns_beside =
        !slot.owned &&
        slot.block->owner.load(std::memory_order_relaxed) == this;
    if (owns_beside ||
        (slot.shares && MustRunBefore(this, slot, arg.written))) {
      return true;
    }
  }
  return false;
}

// Note [Shared readers] in block.h: own first, then look at the readers.
bool PendingQueue::ClaimToWrite(std::uint32_t s) {
  SlotBinding& slot = run_.slots[s];
  if (!slot.owned) {
    PendingQueue* none = nullptr;
    if (!slot.block->owner.compare_exchange_strong(none, this,
                                                   std::memory_order_seq_cst)) {
      return false;
    }
    slot.owned = true;
    run_.owned.push_back(s);
  }
  const std::uint32_t mine = slot.reader ? 1 : 0;
  return slot.block->shared_use.load(std::memory_order_seq_cst) == mine;
}

bool PendingQueue::ClaimToRead(std::uint32_t s) {
  SlotBinding& slot = run_.slots[s];
  if (slot.owned || slot.reader) return true;
  Block* block = slot.block;
  if (block->is_shared()) {
    block->AddReader();
    slot.reader = true;
    run_.readers.push_back(s);
    const PendingQueue* owner = block->owner.load(std::memory_order_seq_cst);
    return owner == nullptr || owner == this;
  }
  PendingQueue* none = nullptr;
  if (!block->owner.compare_exchange_strong(none, this,
                                            std::memory_order_seq_cst)) {
    if (slot.shares && none == this) return true;  // over the other slot
    if ((block->pending.load(std::memory_order_relaxed) &
         Block::kPendingWrite) == 0) {
      block->RecordSwitch();
    }
    return false;
  }
  slot.owned = true;
  run_.owned.push_back(s);
  return true;
}

}  // namespace tjit::runtime

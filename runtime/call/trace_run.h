// One run along a path of the trace trie: which storage stands for which slot.
//
// Threads: `slots` and `pending` are read by other threads that flush, so they
// change under the mutex of the ThreadState once ops are pending.
#pragma once

#include <c10/core/StorageImpl.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "recorder/trace.h"
#include "runtime/memory/block.h"

namespace tjit::runtime {

struct SlotBinding {
  Block* block = nullptr;  // null: born pending and dropped by the program
  // Where the value was copied at the call (exposed or foreign memory): the
  // first of the program's bytes that `block` has a copy of.
  const char* source = nullptr;
  // Bytes between where the run's accesses lie and where the recorded ones
  // did: a batch sliced out of one big tensor moves on with every step.
  std::int64_t shift = 0;
  // The next four are what flags() has.
  bool copied = false;
  bool held = false;          // the program dropped it; ours to free
  bool owned = false;         // pending ops read or write it
  bool shares = false;        // another slot of the run has its block, too
  bool born_pending = false;  // its first write is pending
  bool reader = false;        // pending ops read it, others may too

  // `copied`, `held`, `owned` and `shares` as the bytes of a word, the lowest
  // first: one load instead of four.
  std::uint32_t flags() const {
    std::uint32_t word = 0;
    std::memcpy(&word, &copied, sizeof(word));
    return word;
  }
  static constexpr std::uint32_t kOwnedOnly = 0x010000;
  bool is_owned_only() const { return flags() == kOwnedOnly; }
};
static_assert(offsetof(SlotBinding, held) == offsetof(SlotBinding, copied) + 1);
static_assert(offsetof(SlotBinding, owned) ==
              offsetof(SlotBinding, copied) + 2);
static_assert(offsetof(SlotBinding, shares) ==
              offsetof(SlotBinding, copied) + 3);
static_assert(std::endian::native == std::endian::little);

struct Run {
  explicit Run(std::uint16_t s) : stream(s) {}

  const std::uint16_t stream;  // of the thread state
  std::vector<SlotBinding> slots;
  std::vector<ScalarValue> scalars;  // by TraceNode::scalar_begin
  std::vector<TraceNode*> pending;   // contiguous part of the path
  std::vector<std::uint32_t> owned;  // slots with `owned` set
  std::vector<std::uint32_t> readers;  // slots with `reader` set
  // Slots of shared blocks, whose binding words other threads overwrite.
  absl::flat_hash_map<const Block*, std::uint32_t> shared_slots;
  std::uint64_t held_bytes = 0;
  std::uint64_t copied_bytes = 0;  // of slots that are copied, about
  // False: the scalars of all pending steps are the recorded ones.
  bool has_other_scalars = false;

  // The word in Block::binding: stream (16 bits), run (24), slot (24).
  static constexpr std::uint64_t kSlotMask = (1u << 24) - 1;
  std::uint64_t BindingOf(std::uint32_t slot) const { return base_ | slot; }
  // The next run of the same stream.
  void NextId() {
    const std::uint64_t id = (base_ >> 24) + 1;
    base_ = std::uint64_t{stream} << 48 | (id & kSlotMask) << 24;
  }
  // Notes that slot `slot` is this block.
  void Record(Block* block, std::uint32_t slot) {
    if (block->is_shared()) {
      shared_slots[block] = slot;
    } else {
      block->binding.store(BindingOf(slot), std::memory_order_relaxed);
    }
  }

 private:
  std::uint64_t base_ = std::uint64_t{stream} << 48;  // binding of slot 0
};

}  // namespace tjit::runtime

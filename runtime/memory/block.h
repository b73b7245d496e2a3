// tjit's CPU allocator: blocks of memory with a 64-byte header in front.
//
// The DataPtr's context is the data pointer itself and raw_deleter() is
// ReleaseBlock, so libtorch sees a "simple" DataPtr (COW, oneDNN's glue and
// _lazy_clone need that). The header tells where the bytes stand: ready, or
// read or written by pending ops of a thread state.
//
//   | lead, of large ones | Block, 64 bytes | data, 64-byte aligned ...
//
// Blocks are recycled: free lists by size class, one set per thread with a
// shared one behind, bounded by the peak of live bytes and a floor for each
// thread, whichever is more (block_cache.h).
// Every allocation and release is reported to profiledCPUMemoryReporter()
// while it has a listener (it keeps nothing of what it is told without one),
// unless reports are off on this thread (the executor's own).
//
// Owners: the DataPtr (`program`) and the pending ops of `owner`. The
// deleter firing is the death notice: if pending ops need the block, it is
// theirs and they free it (FreeBlock), else it is freed.
//
// Note [Shared readers]. A block that several threads keep reading (the weights
// of an inference server) has no owner while it is only read, but counts the
// states whose pending ops read it. Who writes takes `owner` first and then
// looks at the count, who reads counts itself first and then looks at `owner`:
// one of two sees the other, gives way and flushes. A block that dies with
// readers is freed by the last of them.
//
// Invariants: (1) The allocator and its lists are never destroyed. (2) A block
// on a free list has no owner and no readers. (3) Zero bytes: null, no block.
// Threads: allocation and release from any thread. `owner` and
// `pending` change only under the owner state's mutex.
// Tested by: tests/runtime/memory/block_test.cpp
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tjit::runtime {

class PendingQueue;
class PooledTensor;

struct alignas(64) Block {
  // What pending ops of `owner` do with the bytes; under the owner's mutex.
  static constexpr std::uint8_t kPendingRead = 1;
  static constexpr std::uint8_t kPendingWrite = 2;
  // Fixed at allocation but for kHidden and kReserved.
  enum Kind : std::uint8_t {
    kAdopted = 1,    // memory allocated before tjit; header in a side table
    kQuiet = 2,      // the memory reporter was not told of it
    kPages = 4,      // has pages of its own (TJIT_STRESS=hide)
    kHidden = 8,     // these pages are protected now
    kSlot = 16,      // lies in a slot of reserved_block.h
    kReserved = 32,  // which has no memory now
    kLent = 64,      // scratch that a ScratchPool has lent
  };

  char* data = nullptr;
  std::uint64_t bytes = 0;                   // as asked for
  std::atomic<PendingQueue*> owner{nullptr};  // whose pending ops need it
  // Stream, run and slot it was last bound to (Run::BindingOf); 0: none.
  std::atomic<std::uint64_t> binding{0};
  // Stream (upper 16 bits) and position there of the last use and the last
  // write by a wrapped op; 0: none. Of a block on a free list, which no op
  // uses, the same words are next_free() and recycled_tensor().
  std::atomic<std::uint64_t> last_use{0};
  std::atomic<std::uint64_t> last_write{0};
  std::atomic<bool> program{false};     // a DataPtr owns it
  std::atomic<bool> exposed{false};     // the program has a raw pointer into it
  std::atomic<std::uint8_t> pending{0};
  std::uint8_t kind = 0;
  std::uint8_t size_class = 0;
  std::atomic<std::uint8_t> switches{0};  // between streams that touched it
  bool recycled =
      false;  // on a free list, a tensor around it (tensor_recycler.h)
  std::atomic<std::uint32_t> shared_use{0};   // readers, and kDead
  std::uint16_t lead = 0;  // bytes in front: Note [Colours] in block_cache.h
  // Not 0: the bytes are as they were when this was drawn, as long as the
  // storage is armed (runtime/call/index_verdicts.h).
  std::atomic<std::uint16_t> unchanged{0};

  static constexpr std::uint32_t kDead = 1u << 31;  // the program dropped it
  static constexpr std::uint8_t kSwitchesOfShared = 3;

  // The next block of the free list that this one is on. REQUIRES: it is on
  // one.
  Block* next_free() const {
    return reinterpret_cast<Block*>(last_use.load(std::memory_order_relaxed));
  }
  void SetNextFree(Block* next) {
    last_use.store(reinterpret_cast<std::uintptr_t>(next),
                   std::memory_order_relaxed);
  }
  // The tensor around it. REQUIRES: `recycled`.
  PooledTensor* recycled_tensor() const {
    return reinterpret_cast<PooledTensor*>(
        last_write.load(std::memory_order_relaxed));
  }
  void SetRecycledTensor(PooledTensor* tensor) {
    last_write.store(reinterpret_cast<std::uintptr_t>(tensor),
                     std::memory_order_relaxed);
  }
  // It comes off a free list, or is new: no op has used it.
  void ForgetUses() {
    last_use.store(0, std::memory_order_relaxed);
    last_write.store(0, std::memory_order_relaxed);
    ForgetContent();
  }
  // It is about to be written, or may have been.
  void ForgetContent() { unchanged.store(0, std::memory_order_relaxed); }
  bool is_shared() const {
    return switches.load(std::memory_order_relaxed) >= kSwitchesOfShared;
  }
  // Another stream touched it than the one before.
  void RecordSwitch() {
    const std::uint8_t n = switches.load(std::memory_order_relaxed);
    if (n < kSwitchesOfShared) {
      switches.store(n + 1, std::memory_order_relaxed);
    }
  }
  bool has_readers() const {
    return shared_use.load(std::memory_order_seq_cst) != 0;
  }
  void AddReader() { shared_use.fetch_add(1, std::memory_order_seq_cst); }
  // True if it is the caller's to free: the last reader of a dead block.
  bool DropReader() {
    return shared_use.fetch_sub(1, std::memory_order_acq_rel) == (kDead | 1);
  }
  // The program dropped it. True if readers keep it.
  bool DieWithReaders() {
    return has_readers() &&
           shared_use.fetch_or(kDead, std::memory_order_acq_rel) != 0;
  }
};
static_assert(sizeof(Block) == 64);

// Its `kind` where other threads know it: one may hide it or give it memory.
inline std::atomic_ref<std::uint8_t> KindOf(Block* block) {
  return std::atomic_ref<std::uint8_t>(block->kind);
}

// Installs the allocator for CPU with priority over the default one. Once.
void InstallAllocator();
// Our allocator (for storages the runtime makes itself).
c10::Allocator* BlockAllocator();

// True if somebody on this thread or a flag wants to know of allocations.
bool ReportsAllocations();
// True if libtorch's flags want new memory filled.
bool FillsAllocations();

// A new block with `program` set, not reported if `quiet`.
// THROWS: c10::Error as DefaultCPUAllocator does when memory is out.
Block* AllocateBlock(std::size_t bytes, bool quiet);
// The same for a value that will most likely be dropped unread: it may have
// an address only (reserved_block.h) until EnsureMemory() is called.
Block* AllocateDyingBlock(std::size_t bytes, bool quiet);
// Gives a block without memory some. THROWS: as AllocateBlock().
void EnsureMemorySlowly(Block* block);
inline void EnsureMemory(Block* block) {
  if ((block->kind & Block::kReserved) != 0) EnsureMemorySlowly(block);
}
// How many of these threw on this thread.
std::int64_t FailedAllocations();
// Gives a block back. REQUIRES: no owner.
void FreeBlock(Block* block);

// Deleters of our DataPtrs; both take the data pointer.
void ReleaseBlock(void* data);
void ReleaseAdopted(void* data);

Block* AdoptedBlock(void* data);  // side table; null if unknown

// The block behind a storage; null for foreign memory and empty storages, and
// where the data pointer is not the block's own.
inline Block* BlockOf(const c10::StorageImpl* storage) {
  const c10::DataPtr& p =
      const_cast<c10::StorageImpl*>(storage)->_mutable_data_ptr_no_checks();
  void* data = p.get();
  if (data == nullptr || p.get_context() != data) return nullptr;
  if (p.get_deleter() == &ReleaseBlock) {
    return reinterpret_cast<Block*>(static_cast<char*>(data) - sizeof(Block));
  }
  return p.get_deleter() == &ReleaseAdopted ? AdoptedBlock(data) : nullptr;
}

// Makes a block of a storage whose memory came from libtorch's default CPU
// allocator before ours was installed: swaps the deleter, keeps the bytes and
// the address. Returns null (and changes nothing) for all other memory.
Block* AdoptStorage(c10::StorageImpl* storage);

// The runtime's side of the deleter: returns true if pending ops take the
// block over. Implemented in flush.cpp; called only if owner is set.
bool TakeOverDeadBlock(Block* block);

// While it lives, allocations on this thread are not reported.
class QuietScope {
 public:
  QuietScope();
  ~QuietScope();
  QuietScope(const QuietScope&) = delete;
  QuietScope& operator=(const QuietScope&) = delete;

 private:
  bool saved_;
};

// Blocks that this thread allocated less those that it freed.
std::int64_t BlocksOfThread();

// Live bytes (blocks that a DataPtr or pending ops own), and their peak.
std::int64_t LiveBytes();
std::int64_t PeakBytes();
std::int64_t CachedBytes();
void TrimCache();  // gives all cached blocks back to the system

// TJIT_STRESS=hide: blocks get pages of their own from now on. REQUIRES:
// called before the first allocation that is to be hidden.
void EnableHiding();
// Protects / unprotects the pages of the data. `op` names who wrote it and
// must live as long as the process; the place of the hiding is kept (a short
// backtrace), so that an illegal read ends the process with two stacks.
// No-op for blocks without own pages. Returns true if it is hidden now.
bool HideBlock(Block* block, const char* op);
void RevealBlock(Block* block);

}  // namespace tjit::runtime

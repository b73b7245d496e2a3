// Where blocks come from and go to: size classes, free lists, the system.
//
// How: a request is rounded up to one of 248 size classes (multiples of 64 up
// to 512 bytes, then eight per doubling: at most 12.5 % more than asked for). A
// class has a free list per thread and a shared one behind it; lists move in
// batches. From 32 KiB on a block has up to a page more, which is counted
// nowhere.
//
//   AcquireBlock: own list | own list with tensors | next two own lists | batch
//                 from the shared list, or the next two | c10::alloc_cpu
//   RecycleBlock: own list | half of it to the shared list | the system
//
// A block stays in its class, whatever it serves for. So a program whose sizes
// differ from step to step goes on in the memory of other sizes, of at most 4
// MiB, that has up to a quarter more than the class, or up to 128 bytes. Else
// it filled the lists of each class: 9.7 MB instead of 5.9 in a program that
// has 0.5 at once.
//
// Blocks with a tensor around them (tensor_recycler.h) have lists of their own,
// which only threads have. Whoever just wants memory takes them behind those of
// its class without, and none of another class; slots without memory, which are
// kept there for reuse, too, never.
//
// Note [Colours]
// A load waits for an earlier store whose address ends in the same twelve bits,
// as the processor compares no more of them at first. So a loop over tensors
// in step is slow where its result begins up to half a KiB behind an argument
// in the page: it loads what aliases with what it has just stored. That is how
// malloc() places tensors of equal size, a power of two (0xc0 apart): ten ops
// on 64k floats took 9.0 instead of 7.1 us there (Zen 4; 15.3 at 0x40). Where
// all begin at the same place, a loop over twelve of them takes twice as long
// instead, as they share the sets of the first-level cache. So large blocks
// begin at one of eight places of the page in turn, half a KiB apart. Values
// within an arena lie as their sizes have it.
// Source: "4K aliasing" in Intel's optimization manual; page colouring.
//
// Invariants: (1) Cached bytes <= max(floor, peak - live): the process never
// holds more than its own peak and the floor, which is 16 MiB for each thread
// and at most 64. Live bytes are those that were asked for: of blocks that
// serve for smaller ones up to 37.5 % more are held. Programs whose sizes vary
// reach the floor. Thread caches draw budgets from that sum, so no thread has
// to ask on the fast path. What was used least recently goes first. (2) A block
// on a list has its next_free(), and poisoned data under AddressSanitizer. (3)
// Nothing here is ever destroyed.
// Threads: any. No lock on a hit in the thread's own list. Fork: the lock is
// held across fork; lists of the parent's other threads are lost to the child.
// Fork handlers that allocate must be registered after InstallAllocator().
// Tested by: tests/runtime/memory/block_test.cpp, larger_blocks_test.cpp
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "runtime/memory/block.h"
#include "runtime/memory/size_classes.h"

namespace tjit::runtime {

struct FreeList {
  Block* head = nullptr;
  std::uint32_t count = 0;

  void Push(Block* block) {
    block->SetNextFree(head);
    head = block;
    ++count;
  }
  Block* Pop() {  // REQUIRES: not empty
    Block* block = head;
    head = block->next_free();
    --count;
    return block;
  }
};

// One per thread. The counters are written by that thread alone, except
// `budget`, which TrimCache() sets to 0 so that the thread gives up its lists,
// but for slots, which hold no memory.
struct ThreadCache {
  std::array<FreeList, kLocalClasses> lists;
  std::array<FreeList, kRecycledClasses> recycled_lists;
  std::atomic<std::int64_t> live{0};    // not yet in the shared count
  std::atomic<std::int64_t> cached{0};  // bytes on all lists
  std::atomic<std::int64_t> budget{0};  // bytes that they may hold
  std::int64_t blocks = 0;  // taken less given back by this thread
  std::uint32_t recycled = 0;  // blocks on `recycled_lists`
};

// A pointer, not the cache: static thread storage is short where libtjit is
// loaded late.
extern __thread ThreadCache* thread_cache
    __attribute__((tls_model("initial-exec")));
extern unsigned smallest_class;  // > 0 where blocks have pages of their own
// Live bytes that a thread keeps to itself; -1: none (ResetPeak()).
extern std::atomic<std::int64_t> publish_bytes;

Block* AcquireBlockSlowly(std::size_t bytes, unsigned size_class);
void RecycleBlockSlowly(Block* block);
void PublishLive(ThreadCache* cache);

inline void Add(std::atomic<std::int64_t>& sum, std::int64_t bytes) {
  sum.store(sum.load(std::memory_order_relaxed) + bytes,
            std::memory_order_relaxed);  // one writer
}

inline void CountLive(ThreadCache* cache, int blocks, std::int64_t bytes) {
  cache->blocks += blocks;
  Add(cache->live, bytes);
  const std::int64_t live = cache->live.load(std::memory_order_relaxed);
  const std::int64_t most = publish_bytes.load(std::memory_order_relaxed);
  if (live > most || live < -most) PublishLive(cache);
}

inline unsigned LocalLimit(unsigned size_class) {
  const std::int64_t bytes = kClassBytes[size_class];
  return bytes <= 1 << 10 ? 256 : bytes <= 16 << 10 ? 64 : 16;
}

// Takes the tensor off a recycled block.
void Dismantle(Block* block);
// Gives the slots that this thread keeps for reuse back to their pool, where
// any thread may take them. REQUIRES: no lock of the cache.
void ReleaseRecycledSlots(ThreadCache* cache);

// The first block of a list of this class. REQUIRES: there is one.
inline Block* PopBlock(ThreadCache* cache, FreeList* list, unsigned size_class,
                       std::size_t bytes) {
  Block* block = list->Pop();
  Add(cache->cached, -kClassBytes[size_class]);
  CountLive(cache, 1, static_cast<std::int64_t>(bytes));
  return block;
}

// A block for `bytes`: `data` and `size_class` set, the rest as it was left.
// THROWS: c10::Error as c10::alloc_cpu does.
inline Block* AcquireBlock(std::size_t bytes) {
  if (bytes > kMaxClassBytes) return AcquireBlockSlowly(bytes, kUncachedClass);
  unsigned c = SizeClassOf(bytes);
  if (c < smallest_class) c = smallest_class;
  ThreadCache* cache = thread_cache;
  if (c >= kLocalClasses || cache == nullptr ||
      cache->lists[c].head == nullptr) {
    return AcquireBlockSlowly(bytes, c);
  }
  return PopBlock(cache, &cache->lists[c], c, bytes);
}

// For AddressSanitizer.
#if defined(__SANITIZE_ADDRESS__)
void PoisonData(Block* block);
void UnpoisonData(Block* block, std::size_t bytes);
#else
inline void PoisonData(Block*) {}
inline void UnpoisonData(Block*, std::size_t) {}
#endif

// True if the thread may keep the block on the list of its class.
template <auto kLists>
inline bool HasRoomFor(const ThreadCache& cache, const Block& block) {
  const unsigned c = block.size_class;
  return c < kLocalClasses && (cache.*kLists)[c].count < LocalLimit(c) &&
         cache.cached.load(std::memory_order_relaxed) + kClassBytes[c] <=
             cache.budget.load(std::memory_order_relaxed);
}

// REQUIRES: HasRoomFor().
template <auto kLists>
inline void PushBlock(ThreadCache* cache, Block* block) {
  const unsigned c = block->size_class;
  PoisonData(block);
  (cache->*kLists)[c].Push(block);
  Add(cache->cached, kClassBytes[c]);
  CountLive(cache, -1, -static_cast<std::int64_t>(block->bytes));
}

// Takes a block back that is nobody's.
inline void RecycleBlock(Block* block) {
  ThreadCache* cache = thread_cache;
  if (cache == nullptr || !HasRoomFor<&ThreadCache::lists>(*cache, *block)) {
    return RecycleBlockSlowly(block);
  }
  PushBlock<&ThreadCache::lists>(cache, block);
}

// Says that there is no memory for `bytes` as eager would.
[[noreturn]] void ThrowOutOfMemory(std::size_t bytes);
// Adds to the live bytes without taking a block (adopted memory).
void CountForeignLive(std::int64_t bytes);
// The peak that PeakBytes() tells starts anew, and is exact from now on.
void ResetPeak();
// Registers the fork handlers. Once.
void PrepareCacheForFork();
// From now on fresh blocks have pages of their own. See EnableHiding().
void UsePages();

// protected_block.cpp: memory with pages of its own, header in the page before the
// data. Null if the system has none.
void* MapPages(std::size_t data_bytes);
void UnmapPages(Block* block, std::size_t data_bytes);
void RevealAllBlocks();

}  // namespace tjit::runtime

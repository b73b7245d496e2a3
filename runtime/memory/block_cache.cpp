#include "runtime/memory/block_cache.h"

#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "runtime/memory/reserved_block.h"
#include "support/mutex.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace tjit::runtime {

__thread ThreadCache* thread_cache
    __attribute__((tls_model("initial-exec"))) = nullptr;
unsigned smallest_class = 0;
std::atomic<std::int64_t> publish_bytes{64 << 10};

namespace {

constexpr std::int64_t kBudgetStep = 1 << 20;
constexpr std::int64_t kMaxBudget = 8 << 20;           // of one thread
constexpr std::int64_t kAllBudgets = kCacheFloor / 2;  // of all together

std::atomic<bool> use_pages{false};
// Set when this thread's cache is gone: it does not get another one.
__thread bool thread_ended __attribute__((tls_model("initial-exec"))) = false;

std::size_t RoomOf(const Block& block) {
  return block.size_class == kUncachedClass
             ? block.bytes
             : static_cast<std::size_t>(kClassBytes[block.size_class]);
}

void FreeToSystem(Block* block) {
  UnpoisonData(block, RoomOf(*block));
  if ((block->kind & Block::kPages) != 0) {
    return UnmapPages(block, RoomOf(*block));
  }
  char* const memory = reinterpret_cast<char*>(block) - block->lead;
  block->~Block();
  c10::free_cpu(memory);
}

void FreeToSystem(FreeList list) {
  while (list.head != nullptr) FreeToSystem(list.Pop());
}

// The lists behind the threads' own, and the sums over all threads.
class SharedCache {
 public:
  // A block of `size_class` or null; fills the list of `cache` (may be null).
  Block* Acquire(unsigned size_class, ThreadCache* cache);
  // Takes `block`; gives what is too much to the system.
  void Release(Block* block, ThreadCache* cache);
  void AddLive(std::int64_t bytes);
  void Fit();  // gives to the system what no longer fits
  void Trim();
  ThreadCache* Enter();
  void Leave(ThreadCache* cache);
  std::int64_t Live();
  std::int64_t Peak();
  void ResetPeak();
  std::int64_t Cached();
  void LockForFork() { mutex_.LockForFork(); }
  void UnlockAfterFork() { mutex_.UnlockAfterFork(); }
  // In a forked child, which holds the mutex.
  void ForgetOtherThreads() ABSL_NO_THREAD_SAFETY_ANALYSIS;

 private:
  struct Bin {
    FreeList list;
    std::uint64_t used = 0;  // by clock_
  };

  std::int64_t Limit() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto threads =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(caches_.size()));
    const std::int64_t live = live_.load(std::memory_order_relaxed);
    return std::max(std::min(kCacheFloor, threads * kCacheFloorOfThread),
                    peak_.load(std::memory_order_relaxed) - live);
  }
  static bool HasRoom(const ThreadCache& cache, std::int64_t bytes) {
    return cache.cached.load(std::memory_order_relaxed) + bytes <=
           cache.budget.load(std::memory_order_relaxed);
  }
  // Of what no thread keeps for itself the bytes that were asked for, as they
  // are what live and peak bytes are made of: else a block that makes up the
  // peak would not fit the limit, for what its class is more.
  static std::int64_t CachedBytesOf(const Block& block) {
    return block.size_class < kLocalClasses
               ? kClassBytes[block.size_class]
               : static_cast<std::int64_t>(block.bytes);
  }
  void MoveToBin(Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HalveList(unsigned size_class, ThreadCache* cache)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes room for `bytes` more on the lists of `cache`, if it may have it.
  bool GrowBudget(ThreadCache* cache, std::int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeBackBudget(ThreadCache* cache) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EmptyLists(ThreadCache* cache) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes least recently used blocks out until `limit` holds.
  FreeList Evict(std::int64_t limit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::array<Bin, kSizeClasses> bins_ ABSL_GUARDED_BY(mutex_);
  std::vector<ThreadCache*> caches_ ABSL_GUARDED_BY(mutex_);
  // In bins_ and in the budgets of caches_.
  std::int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t budgets_ ABSL_GUARDED_BY(mutex_) = 0;  // of caches_
  std::uint64_t clock_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<std::int64_t> live_{0};
  std::atomic<std::int64_t> peak_{0};
  std::atomic<std::int64_t> told_peak_{0};  // since ResetPeak()
};

SharedCache& Shared() {
  static auto* shared = new SharedCache;
  return *shared;
}

void SharedCache::MoveToBin(Block* block) {
  if (block->recycled) Dismantle(block);
  Bin& bin = bins_[block->size_class];
  bin.list.Push(block);
  bin.used = ++clock_;
  bytes_ += CachedBytesOf(*block);
}

FreeList SharedCache::Evict(std::int64_t limit) {
  FreeList out;
  while (bytes_ > limit) {
    Bin* oldest = nullptr;
    for (Bin& bin : bins_) {
      if (bin.list.count != 0 &&
          (oldest == nullptr || bin.used < oldest->used)) {
        oldest = &bin;
      }
    }
    if (oldest == nullptr) break;
    while (oldest->list.count != 0 && bytes_ > limit) {
      Block* block = oldest->list.Pop();
      bytes_ -= CachedBytesOf(*block);
      out.Push(block);
    }
  }
  return out;
}

bool SharedCache::GrowBudget(ThreadCache* cache, std::int64_t bytes) {
  if (HasRoom(*cache, bytes)) return true;
  const std::int64_t budget = cache->budget.load(std::memory_order_relaxed);
  if (budget + kBudgetStep > kMaxBudget) return false;
  if (budgets_ + kBudgetStep > kAllBudgets) return false;
  budgets_ += kBudgetStep;
  bytes_ += kBudgetStep;
  cache->budget.store(budget + kBudgetStep, std::memory_order_relaxed);
  return HasRoom(*cache, bytes);
}

void SharedCache::TakeBackBudget(ThreadCache* cache) {
  const std::int64_t budget = cache->budget.exchange(0);
  budgets_ -= budget;
  bytes_ -= budget;
}

Block* SharedCache::Acquire(unsigned size_class, ThreadCache* cache) {
  const MutexLock lock(mutex_);
  size_class = ClassWithFree(size_class,
                             [this](unsigned c) ABSL_NO_THREAD_SAFETY_ANALYSIS {
                               return bins_[c].list.count != 0;
                             });
  Bin& bin = bins_[size_class];
  if (bin.list.count == 0) return nullptr;
  bin.used = ++clock_;
  const std::int64_t bytes = kClassBytes[size_class];
  if (cache != nullptr && size_class < kLocalClasses) {
    FreeList& list = cache->lists[size_class];
    while (bin.list.count > 1 && list.count < LocalLimit(size_class) / 2 &&
           HasRoom(*cache, bytes)) {
      list.Push(bin.list.Pop());
      bytes_ -= bytes;
      Add(cache->cached, bytes);
    }
  }
  Block* const block = bin.list.Pop();
  bytes_ -= CachedBytesOf(*block);
  return block;
}

void SharedCache::HalveList(unsigned size_class, ThreadCache* cache) {
  FreeList& list = cache->lists[size_class];
  while (list.count > LocalLimit(size_class) / 2) {
    MoveToBin(list.Pop());
    Add(cache->cached, -kClassBytes[size_class]);
  }
}

void SharedCache::Release(Block* block, ThreadCache* cache) {
  const unsigned c = block->size_class;
  FreeList out;
  {
    const MutexLock lock(mutex_);
    if (cache != nullptr && cache->budget.load() == 0) EmptyLists(cache);
    if (cache != nullptr && c < kLocalClasses) {
      if (cache->lists[c].count >= LocalLimit(c)) HalveList(c, cache);
      if (GrowBudget(cache, kClassBytes[c])) {
        cache->lists[c].Push(block);
        Add(cache->cached, kClassBytes[c]);
        block = nullptr;
      }
    }
    if (block != nullptr) MoveToBin(block);
    out = Evict(Limit());
  }
  FreeToSystem(out);
}

void SharedCache::Fit() {
  FreeList out;
  {
    const MutexLock lock(mutex_);
    out = Evict(Limit());
  }
  FreeToSystem(out);
}

void SharedCache::AddLive(std::int64_t bytes) {
  const std::int64_t live = live_.fetch_add(bytes) + bytes;
  for (std::atomic<std::int64_t>* sum : {&peak_, &told_peak_}) {
    std::int64_t peak = sum->load(std::memory_order_relaxed);
    while (live > peak && !sum->compare_exchange_weak(peak, live)) {
    }
  }
}

void SharedCache::EmptyLists(ThreadCache* cache) {
  for (unsigned c = 0; c < kLocalClasses; ++c) {
    for (FreeList* list : {&cache->lists[c], &cache->recycled_lists[c]}) {
      while (list->count != 0) MoveToBin(list->Pop());
    }
  }
  cache->cached.store(0, std::memory_order_relaxed);
  TakeBackBudget(cache);
}

void SharedCache::Trim() {
  if (thread_cache != nullptr) ReleaseRecycledSlots(thread_cache);
  FreeList out;
  {
    const MutexLock lock(mutex_);
    if (thread_cache != nullptr) EmptyLists(thread_cache);
    // The others give theirs up when they next free a block.
    for (ThreadCache* cache : caches_) TakeBackBudget(cache);
    out = Evict(0);
  }
  FreeToSystem(out);
}

ThreadCache* SharedCache::Enter() {
  auto* cache = new ThreadCache;
  const MutexLock lock(mutex_);
  caches_.push_back(cache);
  return cache;
}

void SharedCache::Leave(ThreadCache* cache) {
  ReleaseRecycledSlots(cache);
  FreeList out;
  {
    const MutexLock lock(mutex_);
    EmptyLists(cache);
    AddLive(cache->live.exchange(0));
    std::erase(caches_, cache);
    out = Evict(Limit());
  }
  FreeToSystem(out);
  delete cache;
}

std::int64_t SharedCache::Live() {
  const MutexLock lock(mutex_);
  std::int64_t live = live_.load();
  for (ThreadCache* cache : caches_) live += cache->live.load();
  return live;
}

std::int64_t SharedCache::Peak() {
  const std::int64_t live = Live();
  return std::max(told_peak_.load(), live);
}

void SharedCache::ResetPeak() {
  publish_bytes.store(-1, std::memory_order_relaxed);
  {
    const MutexLock lock(mutex_);
    if (thread_cache != nullptr) AddLive(thread_cache->live.exchange(0));
  }
  told_peak_.store(Live());
}

std::int64_t SharedCache::Cached() {
  const MutexLock lock(mutex_);
  std::int64_t cached = bytes_;
  for (ThreadCache* cache : caches_) {
    cached += cache->cached.load() - cache->budget.load();
  }
  return cached;
}

void SharedCache::ForgetOtherThreads() {
  // Their lists may be half changed: leave the blocks alone.
  for (ThreadCache* cache : caches_) {
    if (cache == thread_cache) continue;
    live_.fetch_add(cache->live.load());
    TakeBackBudget(cache);
  }
  caches_.clear();
  if (thread_cache != nullptr) caches_.push_back(thread_cache);
}

struct CacheOwner {
  ~CacheOwner() {
    ThreadCache* cache = std::exchange(thread_cache, nullptr);
    thread_ended = true;
    if (cache != nullptr) Shared().Leave(cache);
  }
};

ThreadCache* CacheOfThread() {
  if (thread_cache == nullptr && !thread_ended) {
    thread_cache = Shared().Enter();
    static thread_local CacheOwner owner;
    (void)owner;
  }
  return thread_cache;
}

// Bytes from `memory`, 64-byte aligned, to where the next colour begins.
std::size_t NextLead(const void* memory) {
  constexpr std::size_t kPage = 4096;
  static std::atomic<std::size_t> next{0};
  const std::size_t colour = next.fetch_add(1, std::memory_order_relaxed);
  return (colour * (kPage / kColours) -
          reinterpret_cast<std::uintptr_t>(memory)) % kPage;
}

// A header in front of uninitialised memory for `bytes`, or null.
Block* SystemBlock(std::size_t bytes) {
  constexpr std::size_t kMostLead = 4096 - 64;
  if (use_pages.load(std::memory_order_relaxed)) {
    void* const pages = MapPages(bytes);
    return pages == nullptr ? nullptr : new (pages) Block;
  }
  const bool is_coloured = kHasColours && bytes >= kMinColouredBytes;
  char* memory = nullptr;
  try {
    memory = static_cast<char*>(c10::alloc_cpu(
        sizeof(Block) + bytes + (is_coloured ? kMostLead : 0)));
  } catch (const c10::Error&) {
    return nullptr;
  }
  const std::size_t lead = is_coloured ? NextLead(memory) : 0;
  auto* block = new (memory + lead) Block;
  block->lead = static_cast<std::uint16_t>(lead);
  return block;
}

Block* FreshBlock(std::size_t bytes, unsigned size_class) {
  if (bytes > (std::size_t{1} << 62)) ThrowOutOfMemory(bytes);
  std::size_t room = size_class == kUncachedClass
                         ? bytes
                         : static_cast<std::size_t>(kClassBytes[size_class]);
  Block* block = SystemBlock(room);
  if (block == nullptr) {
    Shared().Trim();
    block = SystemBlock(room);
  }
  if (block == nullptr) {
    size_class = kUncachedClass;  // without rounding up
    block = SystemBlock(bytes);
  }
  if (block == nullptr) ThrowOutOfMemory(bytes);
  block->data = reinterpret_cast<char*>(block) + sizeof(Block);
  block->size_class = static_cast<std::uint8_t>(size_class);
  if (use_pages.load(std::memory_order_relaxed)) block->kind = Block::kPages;
  return block;
}

}  // namespace

void ThrowOutOfMemory(std::size_t bytes) {
  c10::free_cpu(c10::alloc_cpu(bytes));  // throws, unless `bytes` just fits
  TORCH_CHECK(false, "DefaultCPUAllocator: can't allocate memory: you tried to "
              "allocate ", bytes, " bytes. Error code 12 (Cannot allocate "
              "memory)");
}

#if defined(__SANITIZE_ADDRESS__)
void PoisonData(Block* block) {
  ASAN_POISON_MEMORY_REGION(block->data, RoomOf(*block));
}

void UnpoisonData(Block* block, std::size_t bytes) {
  ASAN_UNPOISON_MEMORY_REGION(block->data, bytes);
}
#endif

void PublishLive(ThreadCache* cache) {
  const std::int64_t live = cache->live.load(std::memory_order_relaxed);
  cache->live.store(0, std::memory_order_relaxed);
  Shared().AddLive(live);
}

void ReleaseRecycledSlots(ThreadCache* cache) {
  for (unsigned c = kLocalClasses; c < kRecycledClasses; ++c) {
    FreeList& list = cache->recycled_lists[c];
    while (list.count != 0) {
      Block* const block = list.Pop();
      Dismantle(block);
      ReleaseReservedSlot(block);
    }
  }
}

void CountForeignLive(std::int64_t bytes) { Shared().AddLive(bytes); }

namespace {

// One of the thread's own; or null. Larger ones with a tensor around them stay
// for tensors: they would be taken apart in each step.
Block* PopOwn(ThreadCache* cache, unsigned size_class, std::size_t bytes) {
  FreeList* const recycled = &cache->recycled_lists[size_class];
  if (recycled->head != nullptr) {
    Block* const block = PopBlock(cache, recycled, size_class, bytes);
    Dismantle(block);
    return block;
  }
  const unsigned c = ClassWithFree(size_class, [cache](unsigned candidate) {
    return candidate < kLocalClasses && cache->lists[candidate].head != nullptr;
  });
  FreeList* const list = &cache->lists[c];
  return list->head == nullptr ? nullptr : PopBlock(cache, list, c, bytes);
}

}  // namespace

Block* AcquireBlockSlowly(std::size_t bytes, unsigned size_class) {
  ThreadCache* cache = CacheOfThread();
  if (cache != nullptr && size_class < kLocalClasses) {
    if (Block* const own = PopOwn(cache, size_class, bytes)) return own;
  }
  Block* block = nullptr;
  if (size_class != kUncachedClass) block = Shared().Acquire(size_class, cache);
  const bool fresh = block == nullptr;
  if (fresh) block = FreshBlock(bytes, size_class);
  const auto live = static_cast<std::int64_t>(bytes);
  if (cache != nullptr) {
    CountLive(cache, 1, live);
  } else {
    Shared().AddLive(live);
  }
  if (fresh) Shared().Fit();
  return block;
}

void RecycleBlockSlowly(Block* block) {
  ThreadCache* cache = CacheOfThread();
  const auto live = -static_cast<std::int64_t>(block->bytes);
  if (cache != nullptr) {
    CountLive(cache, -1, live);
  } else {
    Shared().AddLive(live);
  }
  if (block->size_class == kUncachedClass) return FreeToSystem(block);
  PoisonData(block);
  Shared().Release(block, cache);
}

[[gnu::hot]] std::int64_t BlocksOfThread() {
  return thread_cache == nullptr ? 0 : thread_cache->blocks;
}

std::int64_t LiveBytes() { return Shared().Live(); }
std::int64_t PeakBytes() { return Shared().Peak(); }
std::int64_t CachedBytes() { return Shared().Cached(); }
void ResetPeak() { Shared().ResetPeak(); }
void TrimCache() { Shared().Trim(); }

void UsePages() {
  TrimCache();
  smallest_class = SizeClassOf(4096);
  use_pages.store(true);
}

void PrepareCacheForFork() {
  pthread_atfork([] { Shared().LockForFork(); },
                 [] { Shared().UnlockAfterFork(); },
                 [] {
                   Shared().ForgetOtherThreads();
                   Shared().UnlockAfterFork();
                 });
}

}  // namespace tjit::runtime

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Flags.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <unordered_map>
#include <utility>

#include "runtime/memory/birth_watch.h"
#include "runtime/memory/block.h"
#include "runtime/memory/block_cache.h"
#include "runtime/memory/placement_scope.h"
#include "runtime/memory/reserved_block.h"
#include "runtime/memory/scratch_pool.h"
#include "support/mutex.h"

// Fill what is allocated, as libtorch's default allocator does.
C10_DECLARE_bool(caffe2_cpu_allocator_do_zero_fill);
C10_DECLARE_bool(caffe2_cpu_allocator_do_junk_fill);

namespace tjit::runtime {
namespace {

// What the allocator looks at on this thread before anything else.
struct ThreadScopes {
  PlacementScope* placement;  // the innermost; null: none has been made
  BirthWatch* births;
  bool quiet;
  std::uint32_t failed;  // allocations
};
__thread ThreadScopes scopes
    __attribute__((tls_model("initial-exec"))) = {nullptr, nullptr, false, 0};

__thread std::int64_t scratch_bytes __attribute__((tls_model("initial-exec"))) =
    0;

constexpr auto kCpu = c10::DeviceType::CPU;

c10::ProfiledCPUMemoryReporter& Reporter() {
  static auto& reporter = c10::profiledCPUMemoryReporter();
  return reporter;
}

Block* HeaderOf(void* data) {
  return reinterpret_cast<Block*>(static_cast<char*>(data) - sizeof(Block));
}

// ------------------------------------------------------------ placement

// Scratch that a room has lent, in front of its data. As it has a Block, it can
// be released where nothing is known of the scope it was taken in.
struct alignas(64) LentBlock {
  ScratchPool* room = nullptr;
  Block block;
};
static_assert(offsetof(LentBlock, block) + sizeof(Block) == sizeof(LentBlock));

LentBlock* LentOf(Block* block) {
  return reinterpret_cast<LentBlock*>(reinterpret_cast<char*>(block) -
                                      offsetof(LentBlock, block));
}

void ReturnLent(Block* block) {
  LentBlock* const lent = LentOf(block);
  lent->room->Release(lent);
}

void ReleaseLent(void* data) { ReturnLent(HeaderOf(data)); }
// Memory that was offered is its owner's.
void ReleaseOffered(void* data) { PlacementScope::MarkReleased(data); }

// ------------------------------------------------------------ allocation

// The garbage of c10: NaN as floating point, large as an integer.
void FillWithJunk(char* data, std::size_t bytes) {
  constexpr std::uint64_t kJunk = 0x7fedbeef7fedbeefULL;
  std::size_t done = 0;
  for (; done + sizeof(kJunk) <= bytes; done += sizeof(kJunk)) {
    std::memcpy(data + done, &kJunk, sizeof(kJunk));
  }
  std::memcpy(data + done, &kJunk, bytes - done);
}

void FillAsAsked(char* data, std::size_t bytes) {
  if (FLAGS_caffe2_cpu_allocator_do_zero_fill) {
    std::memset(data, 0, bytes);
  } else if (FLAGS_caffe2_cpu_allocator_do_junk_fill) {
    FillWithJunk(data, bytes);
  }
}

inline void ResetHeader(Block* block, std::size_t bytes, bool quiet) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  block->bytes = bytes;
  block->owner.store(nullptr, kRelaxed);
  block->binding.store(0, kRelaxed);
  block->ForgetUses();
  block->program.store(true, kRelaxed);
  block->exposed.store(false, kRelaxed);
  block->pending.store(0, kRelaxed);
  block->switches.store(0, kRelaxed);
  block->shared_use.store(0, kRelaxed);
  constexpr std::uint8_t kKept =
      Block::kPages | Block::kSlot | Block::kReserved;
  block->kind = static_cast<std::uint8_t>((block->kind & kKept) |
                                          (quiet ? Block::kQuiet : 0));
}

void RecordBirth(const Block* block) {
  BirthWatch& watch = *scopes.births;
  if (block->bytes > BirthWatch::kMostBytes) return;
  try {
    watch.born.push_back(block);
  } catch (const std::bad_alloc&) {  // then it is one of which nothing is known
  }
}

class Allocator final : public c10::Allocator {
 public:
  [[gnu::hot]] c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &ReleaseBlock, kCpu};
    if (scopes.placement != nullptr) [[unlikely]]
      return AllocateInScope(bytes);
    return AllocateElsewhere(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &ReleaseBlock; }
  bool is_simple_data_ptr(const c10::DataPtr& data) const override {
    return data.get() == data.get_context();
  }
  void copy_data(void* to, const void* from,
                 std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  [[gnu::noinline]] static c10::DataPtr AllocateInScope(std::size_t bytes) {
    PlacementScope& scope = *scopes.placement;
    if (void* offered = scope.AcquireOffer(bytes)) {
      return {offered, offered, &ReleaseOffered, kCpu};
    }
    ScratchPool* const room = scope.room();
    if (room == nullptr) return AllocateElsewhere(bytes);
    if (char* memory = room->Acquire(sizeof(LentBlock) + bytes)) {
      auto* const lent = new (memory) LentBlock{room, {}};
      char* const data = memory + sizeof(LentBlock);
      lent->block.data = data;
      lent->block.bytes = bytes;
      lent->block.kind = Block::kQuiet | Block::kLent;
      scratch_bytes += static_cast<std::int64_t>(bytes);
      if (FillsAllocations()) FillAsAsked(data, bytes);
      return {data, data, &ReleaseLent, kCpu};
    }
    c10::DataPtr data = AllocateElsewhere(bytes);
    room->Record(data.get());
    return data;
  }
  static c10::DataPtr AllocateElsewhere(std::size_t bytes) {
    Block* const block = AllocateBlock(bytes, scopes.quiet);
    if (scopes.births != nullptr) [[unlikely]]
      RecordBirth(block);
    return {block->data, block->data, &ReleaseBlock, kCpu};
  }
};

// ------------------------------------------------------------ adopted memory

// Blocks of memory that libtorch's default allocator made, by data pointer.
class SideTable {
 public:
  Block* Find(void* data) {
    Shard& shard = ShardOf(data);
    const MutexLock lock(shard.mutex);
    const auto it = shard.blocks.find(data);
    return it == shard.blocks.end() ? nullptr : it->second;
  }
  void Insert(Block* block) {
    Shard& shard = ShardOf(block->data);
    const MutexLock lock(shard.mutex);
    shard.blocks.insert_or_assign(block->data, block);
  }
  void Erase(void* data) {
    Shard& shard = ShardOf(data);
    const MutexLock lock(shard.mutex);
    shard.blocks.erase(data);
    removals.fetch_add(1, std::memory_order_release);
  }
  // Around a fork.
  void LockAll() {
    for (Shard& shard : shards_) shard.mutex.LockForFork();
  }
  void UnlockAll() {
    for (Shard& shard : shards_) shard.mutex.UnlockAfterFork();
  }

  // Bumped with every erased entry: what threads remember holds while it does.
  std::atomic<std::uint64_t> removals{1};

 private:
  struct Shard {
    Mutex mutex;
    std::unordered_map<void*, Block*> blocks ABSL_GUARDED_BY(mutex);
  };
  Shard& ShardOf(void* data) {
    return shards_[(reinterpret_cast<std::uintptr_t>(data) >> 6) % kShards];
  }
  static constexpr std::size_t kShards = 16;
  std::array<Shard, kShards> shards_;
};

SideTable& Adopted() {
  static auto* table = new SideTable;
  return *table;
}

// The last lookups of this thread: parameters older than tjit are looked up
// at every op.
struct Remembered {
  static constexpr std::size_t kEntries = 256;
  std::uint64_t removals = 0;
  std::array<std::pair<void*, Block*>, kEntries> entries{};

  std::pair<void*, Block*>& Entry(void* data) {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    return entries[((address >> 6) ^ (address >> 14)) % kEntries];
  }
};
// A pointer: static thread storage is short where libtjit is loaded late.
thread_local Remembered* remembered = nullptr;
thread_local bool remembered_ended = false;

struct RememberedOwner {
  ~RememberedOwner() {
    delete std::exchange(remembered, nullptr);
    remembered_ended = true;
  }
};

// Null on a thread that ends, and where there is no memory.
Remembered* RememberedOfThread() {
  if (remembered == nullptr && !remembered_ended) {
    remembered = new (std::nothrow) Remembered;
    static thread_local RememberedOwner owner;
    (void)owner;
  }
  return remembered;
}

}  // namespace

void InstallAllocator() {
  static const bool once = [] {
    Adopted();
    pthread_atfork([] { Adopted().LockAll(); }, [] { Adopted().UnlockAll(); },
                   [] { Adopted().UnlockAll(); });
    PrepareCacheForFork();
    c10::SetAllocator(c10::DeviceType::CPU, BlockAllocator(), 1);
    return true;
  }();
  (void)once;
}

c10::Allocator* BlockAllocator() {
  static auto* allocator = new Allocator;
  return allocator;
}

bool ReportsAllocations() {
  return FLAGS_caffe2_report_cpu_memory_usage || c10::memoryProfilingEnabled();
}

bool FillsAllocations() {
  return FLAGS_caffe2_cpu_allocator_do_zero_fill ||
         FLAGS_caffe2_cpu_allocator_do_junk_fill;
}

[[gnu::hot]] Block* AllocateBlock(std::size_t bytes, bool quiet) {
  const bool reported = !quiet && ReportsAllocations();
  Block* block = nullptr;
  try {
    block = AcquireBlock(bytes);
  } catch (const c10::Error&) {
    ++scopes.failed;
    if (!quiet) Reporter().OutOfMemory(bytes);
    throw;
  }
  ResetHeader(block, bytes, !reported);
  UnpoisonData(block, bytes);
  if (FillsAllocations()) [[unlikely]]
    FillAsAsked(block->data, bytes);
  if (reported) Reporter().New(block->data, bytes);
  return block;
}

Block* AllocateDyingBlock(std::size_t bytes, bool quiet) {
  Block* block = MayFault(bytes) ? AcquireReservedSlot(bytes) : nullptr;
  if (block == nullptr) return AllocateBlock(bytes, quiet);
  const bool reported = !quiet && ReportsAllocations();
  ResetHeader(block, bytes, !reported);
  if (reported) Reporter().New(block->data, bytes);
  return block;
}

void EnsureMemorySlowly(Block* block) {
  if (MapReservedSlot(block)) {
    CountForeignLive(static_cast<std::int64_t>(block->bytes));
    return;
  }
  ++scopes.failed;
  ThrowOutOfMemory(block->bytes);
}

std::int64_t FailedAllocations() { return scopes.failed; }

namespace {

// What did not come from the cache.
[[gnu::noinline]] void FreeOther(Block* block) {
  if ((block->kind & Block::kAdopted) != 0) {
    Adopted().Erase(block->data);
    CountForeignLive(-static_cast<std::int64_t>(block->bytes));
    c10::free_cpu(block->data);
    delete block;
    return;
  }
  if ((block->kind & Block::kSlot) != 0) {
    if ((block->kind & Block::kReserved) == 0) {
      CountForeignLive(-static_cast<std::int64_t>(block->bytes));
    }
    return ReleaseReservedSlot(block);
  }
  if ((block->kind & Block::kLent) != 0) return ReturnLent(block);
  RevealBlock(block);
  RecycleBlock(block);
}

}  // namespace

[[gnu::hot]] void FreeBlock(Block* block) {
  constexpr unsigned kOther =
      Block::kAdopted | Block::kSlot | Block::kPages | Block::kLent;
  if ((block->kind & kOther) != 0) [[unlikely]] return FreeOther(block);
  RecycleBlock(block);
}

[[gnu::hot]] void ReleaseBlock(void* data) {
  if (data == nullptr) return;
  if (scopes.placement != nullptr && PlacementScope::MarkReleased(data)) return;
  Block* block = HeaderOf(data);
  if ((block->kind & Block::kQuiet) == 0) Reporter().Delete(data);
  if (block->owner.load(std::memory_order_acquire) != nullptr &&
      TakeOverDeadBlock(block)) {
    return;
  }
  block->program.store(false, std::memory_order_relaxed);
  if (!block->DieWithReaders()) FreeBlock(block);
}

void ReleaseAdopted(void* data) {
  Block* block = AdoptedBlock(data);
  Reporter().Delete(data);  // what the default deleter does besides freeing
  if (block->owner.load(std::memory_order_acquire) != nullptr &&
      TakeOverDeadBlock(block)) {
    return;
  }
  if (!block->DieWithReaders()) FreeBlock(block);
}

Block* AdoptedBlock(void* data) {
  Remembered* mine = RememberedOfThread();
  if (mine == nullptr) return Adopted().Find(data);
  const std::uint64_t removals =
      Adopted().removals.load(std::memory_order_acquire);
  if (mine->removals != removals) {
    mine->entries.fill({nullptr, nullptr});
    mine->removals = removals;
  }
  auto& entry = mine->Entry(data);
  if (entry.first != data) {
    Block* block = Adopted().Find(data);
    if (block == nullptr) return nullptr;
    entry = {data, block};
  }
  return entry.second;
}

Block* AdoptStorage(c10::StorageImpl* storage) {
  static const c10::DeleterFnPtr default_deleter =
      c10::GetDefaultCPUAllocator()->raw_deleter();
  c10::DataPtr& p = storage->_mutable_data_ptr_no_checks();
  void* data = p.get();
  if (data == nullptr || p.get_context() != data || !p.device().is_cpu() ||
      p.get_deleter() != default_deleter) {
    return nullptr;
  }
  // Several threads may meet the same weights first.
  static Mutex mutex;
  const MutexLock lock(mutex);
  if (p.get_deleter() == &ReleaseAdopted) return AdoptedBlock(data);
  auto* block = new Block;
  block->data = static_cast<char*>(data);
  block->bytes = storage->nbytes();
  block->program.store(true, std::memory_order_relaxed);
  block->kind = Block::kAdopted;
  Adopted().Insert(block);
  CountForeignLive(static_cast<std::int64_t>(block->bytes));
  TORCH_INTERNAL_ASSERT(
      p.compare_exchange_deleter(default_deleter, &ReleaseAdopted));
  return block;
}

bool BirthWatch::Saw(const Block* block) const {
  return std::find(born.begin(), born.end(), block) != born.end();
}

void WatchBirths(BirthWatch* watch) { scopes.births = watch; }

QuietScope::QuietScope() : saved_(scopes.quiet) { scopes.quiet = true; }
QuietScope::~QuietScope() { scopes.quiet = saved_; }

PlacementScope::PlacementScope(PlacementOffer* offers, std::size_t count,
                               ScratchPool* room)
    : offers_(offers), count_(count), room_(room), outer_(scopes.placement) {
  scopes.placement = this;
}

PlacementScope::~PlacementScope() { scopes.placement = outer_; }

void* PlacementScope::AcquireOffer(std::size_t bytes) {
  PlacementOffer* found = nullptr;
  for (std::size_t i = 0; i < count_; ++i) {
    if (offers_[i].bytes != bytes) continue;
    if (found != nullptr) return nullptr;  // which one is not known
    found = &offers_[i];
  }
  if (found == nullptr || found->taken || found->data == nullptr) {
    return nullptr;
  }
  if (found->passes > 0) {
    --found->passes;
    return nullptr;
  }
  found->taken = true;
  return found->data;
}

bool PlacementScope::MarkReleased(void* data) {
  for (const PlacementScope* s = scopes.placement; s != nullptr;
       s = s->outer_) {
    for (std::size_t i = 0; i < s->count_; ++i) {
      PlacementOffer& offer = s->offers_[i];
      if (!offer.taken || offer.data != data) continue;
      offer.released = true;
      return true;
    }
    if (s->room_ != nullptr) s->room_->Release(data);
  }
  return false;
}

std::int64_t PlacedScratchBytes() { return scratch_bytes; }

}  // namespace tjit::runtime

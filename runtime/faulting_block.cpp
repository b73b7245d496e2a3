#include "runtime/faulting_block.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

namespace tjit::runtime {
namespace {

constexpr std::size_t kMaxSlots = 4096;
constexpr unsigned kClasses = 9;  // 64 KiB << 0 .. 8
static_assert(kMinFaultingBytes << (kClasses - 1) == kMaxFaultingBytes);

struct Pool {
  std::mutex mutex;  // a std::mutex because a forked child may unlock it
  std::array<std::vector<Block*>, kClasses> free;
};

Pool& ThePool() {
  static auto* pool = new Pool;
  return *pool;
}

// Read by the fault handler: the first slot_count are complete.
std::array<Block*, kMaxSlots> slots;
std::atomic<std::size_t> slot_count{0};
FaultHandler fault_handler = nullptr;
struct sigaction previous_action;

unsigned ClassOf(std::size_t bytes) {
  return static_cast<unsigned>(std::bit_width((bytes - 1) / kMinFaultingBytes));
}

std::size_t ClassBytes(unsigned size_class) {
  return kMinFaultingBytes << size_class;
}

std::atomic_ref<std::uint8_t> KindOf(Block* block) {
  return std::atomic_ref<std::uint8_t>(block->kind);
}

// By kill(), raise() and the like: no access that would fault again.
bool WasSent(const siginfo_t* info) { return info->si_code <= 0; }

void PassOn(int signal_number, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    return previous_action.sa_sigaction(signal_number, info, context);
  }
  const bool ignores = previous_action.sa_handler == SIG_IGN;
  if (ignores && WasSent(info)) return;
  if (ignores || previous_action.sa_handler == SIG_DFL) {
    signal(signal_number, SIG_DFL);  // and the access faults again
    if (WasSent(info)) raise(signal_number);
    return;
  }
  previous_action.sa_handler(signal_number);
}

Block* SlotAt(const void* address) {
  const char* at = static_cast<const char*>(address);
  const std::size_t count = slot_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    Block* block = slots[i];
    if (at >= block->data && at < block->data + ClassBytes(block->size_class)) {
      return block;
    }
  }
  return nullptr;
}

void OnFault(int signal_number, siginfo_t* info, void* context) {
  const int saved = errno;
  Block* block = WasSent(info) ? nullptr : SlotAt(info->si_addr);
  if (block == nullptr || !fault_handler(block)) {
    PassOn(signal_number, info, context);
  }
  errno = saved;
}

// On the stack of the thread: kernels need more than an alternate one has.
void InstallSignalHandler() {
  struct sigaction action {};
  action.sa_sigaction = &OnFault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &previous_action);
}

// REQUIRES: the pool's mutex.
Block* NewSlot(unsigned size_class) {
  const std::size_t count = slot_count.load(std::memory_order_relaxed);
  if (count == kMaxSlots || fault_handler == nullptr) return nullptr;
  static const bool installed = (InstallSignalHandler(), true);
  static_cast<void>(installed);
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t bytes = page + ClassBytes(size_class);
  void* map = mmap(nullptr, bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  if (mprotect(map, page, PROT_READ | PROT_WRITE) != 0) {
    munmap(map, bytes);
    return nullptr;
  }
  char* data = static_cast<char*>(map) + page;
  auto* block = new (data - sizeof(Block)) Block;
  block->data = data;
  block->size_class = static_cast<std::uint8_t>(size_class);
  block->kind = Block::kSlot | Block::kFaulting;
  slots[count] = block;
  slot_count.store(count + 1, std::memory_order_release);
  return block;
}

}  // namespace

Block* TakeFaultingSlot(std::size_t bytes) {
  const unsigned size_class = ClassOf(bytes);
  Pool& pool = ThePool();
  const std::lock_guard lock(pool.mutex);
  std::vector<Block*>& free = pool.free[size_class];
  if (free.empty()) return NewSlot(size_class);
  Block* block = free.back();
  free.pop_back();
  return block;
}

void GiveFaultingSlot(Block* block) {
  if ((KindOf(block) & Block::kFaulting) == 0) {
    const std::size_t bytes = ClassBytes(block->size_class);
    // One that keeps its memory cannot fault again: it is left out for good.
    if (madvise(block->data, bytes, MADV_DONTNEED) != 0 ||
        mprotect(block->data, bytes, PROT_NONE) != 0) {
      return;
    }
    KindOf(block).fetch_or(Block::kFaulting);
  }
  Pool& pool = ThePool();
  const std::lock_guard lock(pool.mutex);
  pool.free[block->size_class].push_back(block);
}

bool MapFaultingSlot(Block* block) {
  if (mprotect(block->data, ClassBytes(block->size_class),
               PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  KindOf(block).fetch_and(static_cast<std::uint8_t>(~Block::kFaulting));
  return true;
}

void InstallFaultHandler(FaultHandler handler) {
  static const bool once = [handler] {
    fault_handler = handler;
    ThePool();
    pthread_atfork([] { ThePool().mutex.lock(); },
                   [] { ThePool().mutex.unlock(); },
                   [] { ThePool().mutex.unlock(); });
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace tjit::runtime

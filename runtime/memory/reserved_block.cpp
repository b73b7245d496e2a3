#include "runtime/memory/reserved_block.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <new>
#include <vector>

#include "runtime/memory/block.h"
#include "support/mutex.h"

namespace tjit::runtime {
namespace {

constexpr std::size_t kMaxSlots = 4096;

struct Pool {
  Mutex mutex;
  std::array<std::vector<Block*>, kSlotClasses> free ABSL_GUARDED_BY(mutex);
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

std::size_t ClassBytes(unsigned size_class) {
  return kMinReservedBytes << size_class;
}

// By kill(), raise() and the like: no access that would fault again.
bool WasSent(const siginfo_t* info) { return info->si_code <= 0; }

// As the system would have called it; it has chosen the stack already.
void CallPrevious(int signal_number, siginfo_t* info, void* context) {
  const struct sigaction previous = previous_action;
  if ((previous.sa_flags & SA_RESETHAND) != 0) {
    previous_action.sa_flags = 0;
    previous_action.sa_handler = SIG_DFL;
  }
  sigset_t blocked = previous.sa_mask;
  if ((previous.sa_flags & SA_NODEFER) == 0) sigaddset(&blocked, signal_number);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal_number, info, context);
  } else {
    previous.sa_handler(signal_number);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void PassOn(int signal_number, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    return CallPrevious(signal_number, info, context);
  }
  const bool ignores = previous_action.sa_handler == SIG_IGN;
  if (ignores && WasSent(info)) return;
  if (ignores || previous_action.sa_handler == SIG_DFL) {
    signal(signal_number, SIG_DFL);  // and the access faults again
    if (WasSent(info)) raise(signal_number);
    return;
  }
  CallPrevious(signal_number, info, context);
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

// A stack for kernels, which need more than an alternate one has.
constexpr std::size_t kStackBytes = 8 << 20;

struct Service {
  Block* block = nullptr;
  bool served = false;
  ucontext_t there, back;
};

// On the new stack. A fault in a kernel must not begin at the top of the
// alternate one, where OnFault() still stands.
void Serve(unsigned high, unsigned low) {
  auto* service = reinterpret_cast<Service*>(std::uintptr_t{high} << 32 | low);
  stack_t none{}, alternate{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, &alternate);
  service->served = fault_handler(service->block);
  sigaltstack(&alternate, nullptr);
}

bool ServeOnNewStack(Block* block) {
  void* map = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return false;
  auto* service = new (map) Service;
  service->block = block;
  getcontext(&service->there);
  service->there.uc_stack.ss_sp = service + 1;
  service->there.uc_stack.ss_size = kStackBytes - sizeof(Service);
  service->there.uc_link = &service->back;
  const auto at = reinterpret_cast<std::uintptr_t>(service);
  makecontext(&service->there, reinterpret_cast<void (*)()>(&Serve), 2,
              static_cast<unsigned>(at >> 32), static_cast<unsigned>(at));
  swapcontext(&service->back, &service->there);
  const bool served = service->served;
  munmap(map, kStackBytes);
  return served;
}

bool IsOnAlternateStack() {
  stack_t now{};
  return sigaltstack(nullptr, &now) == 0 && (now.ss_flags & SS_ONSTACK) != 0;
}

bool FillIn(Block* block) {
  return IsOnAlternateStack() ? ServeOnNewStack(block) : fault_handler(block);
}

void OnFault(int signal_number, siginfo_t* info, void* context) {
  const int saved = errno;
  Block* block = WasSent(info) ? nullptr : SlotAt(info->si_addr);
  if (block == nullptr || !FillIn(block)) {
    PassOn(signal_number, info, context);
  }
  errno = saved;
}

// On the alternate stack where the handler before ours wants it, which may be
// there for a stack that overflows.
void InstallSignalHandler() {
  sigaction(SIGSEGV, nullptr, &previous_action);
  struct sigaction action {};
  action.sa_sigaction = &OnFault;
  action.sa_flags =
      SA_SIGINFO | SA_NODEFER | (previous_action.sa_flags & SA_ONSTACK);
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &previous_action);
}

// The pool's mutex guards what slots are added.
Block* NewSlot(Pool& pool, unsigned size_class)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(pool.mutex) {
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
  block->kind = Block::kSlot | Block::kReserved;
  slots[count] = block;
  slot_count.store(count + 1, std::memory_order_release);
  return block;
}

}  // namespace

Block* AcquireReservedSlot(std::size_t bytes) {
  const unsigned size_class = SlotClassOf(bytes);
  Pool& pool = ThePool();
  const MutexLock lock(pool.mutex);
  std::vector<Block*>& free = pool.free[size_class];
  if (free.empty()) return NewSlot(pool, size_class);
  Block* block = free.back();
  free.pop_back();
  return block;
}

void ReleaseReservedSlot(Block* block) {
  if ((KindOf(block) & Block::kReserved) == 0) {
    const std::size_t bytes = ClassBytes(block->size_class);
    // One that keeps its memory cannot fault again: it is left out for good.
    if (madvise(block->data, bytes, MADV_DONTNEED) != 0 ||
        mprotect(block->data, bytes, PROT_NONE) != 0) {
      return;
    }
    KindOf(block).fetch_or(Block::kReserved);
  }
  Pool& pool = ThePool();
  const MutexLock lock(pool.mutex);
  pool.free[block->size_class].push_back(block);
}

bool MapReservedSlot(Block* block) {
  if (mprotect(block->data, ClassBytes(block->size_class),
               PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  KindOf(block).fetch_and(static_cast<std::uint8_t>(~Block::kReserved));
  return true;
}

void InstallFaultHandler(FaultHandler handler) {
  static const bool once = [handler] {
    fault_handler = handler;
    ThePool();
    pthread_atfork([] { ThePool().mutex.LockForFork(); },
                   [] { ThePool().mutex.UnlockAfterFork(); },
                   [] { ThePool().mutex.UnlockAfterFork(); });
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace tjit::runtime

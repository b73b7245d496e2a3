// TJIT_STRESS=hide: blocks with pages of their own, whose data is protected
// until it is read legally. An illegal read ends the process with the op that
// wrote the data, the place where it was hidden and the place of the read.
//
//   | unused, HideNote | Block | data, page-aligned ...
//   | header page, always readable | PROT_NONE while hidden
//
// A protected range costs the kernel two mappings (vm.max_map_count allows
// 65,530), so at most kMaxHidden blocks are hidden: the oldest is revealed.
// System calls that read hidden memory fail with EFAULT instead.
// Threads: any; the handler takes no lock.
// Tested by: tests/runtime/memory/block_hide_test.cpp
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "runtime/memory/block.h"
#include "runtime/memory/block_cache.h"
#include "support/mutex.h"

namespace tjit::runtime {
namespace {

constexpr std::size_t kMaxHidden = 4096;
constexpr int kMaxFrames = 12;

// What is known of a hidden block. Read by the signal handler.
struct Hidden {
  std::atomic<Block*> block{nullptr};
  char* data = nullptr;
  std::size_t bytes = 0;
  const char* op = nullptr;
  int frame_count = 0;
  std::array<void*, kMaxFrames> frames{};
};

struct HideNote {
  std::size_t index;  // in the ring
};

std::array<Hidden, kMaxHidden> ring;
Mutex ring_mutex;  // the fault handler reads without it
std::size_t next_in_ring ABSL_GUARDED_BY(ring_mutex) = 0;
struct sigaction previous_action;

std::size_t PageBytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t RoundToPages(std::size_t bytes) {
  return (bytes + PageBytes() - 1) / PageBytes() * PageBytes();
}

char* HeaderPage(Block* block) {
  return reinterpret_cast<char*>(block) + sizeof(Block) - PageBytes();
}

HideNote& NoteOf(Block* block) {
  return *reinterpret_cast<HideNote*>(HeaderPage(block));
}

bool IsHidden(Block* block) { return (KindOf(block) & Block::kHidden) != 0; }

// REQUIRES: the entry is in use.
void RevealEntry(Hidden* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(ring_mutex) {
  mprotect(entry->data, RoundToPages(entry->bytes), PROT_READ | PROT_WRITE);
  Block* block = entry->block.exchange(nullptr);
  KindOf(block).fetch_and(static_cast<std::uint8_t>(~Block::kHidden));
}

void Print(const char* text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

void PrintFrames(const char* title, void* const* frames, int count) {
  Print(title);
  backtrace_symbols_fd(frames, count, STDERR_FILENO);
}

const Hidden* FindHidden(const void* address) {
  for (const Hidden& entry : ring) {
    if (entry.block.load(std::memory_order_acquire) == nullptr) continue;
    const char* at = static_cast<const char*>(address);
    if (at >= entry.data && at < entry.data + RoundToPages(entry.bytes)) {
      return &entry;
    }
  }
  return nullptr;
}

void PassOn(int signal_number, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    return previous_action.sa_sigaction(signal_number, info, context);
  }
  if (previous_action.sa_handler == SIG_DFL ||
      previous_action.sa_handler == SIG_IGN) {
    signal(signal_number, SIG_DFL);  // and the access faults again
    return;
  }
  previous_action.sa_handler(signal_number);
}

void OnFault(int signal_number, siginfo_t* info, void* context) {
  const Hidden* entry = FindHidden(info->si_addr);
  if (entry == nullptr) return PassOn(signal_number, info, context);
  Print(
      "tjit: TJIT_STRESS=hide: an unknown reader touched the hidden result "
      "of ");
  Print(entry->op);
  PrintFrames("\ntjit: it was hidden at:\n", entry->frames.data(),
              entry->frame_count);
  std::array<void*, 64> frames;
  PrintFrames("tjit: and touched at:\n", frames.data(),
              backtrace(frames.data(), static_cast<int>(frames.size())));
  abort();
}

void InstallHandler() {
  static std::array<char, std::size_t{1} << 16> handler_stack;
  stack_t stack{};
  stack.ss_sp = handler_stack.data();
  stack.ss_size = handler_stack.size();
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = &OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &previous_action);
}

}  // namespace

void* MapPages(std::size_t data_bytes) {
  void* map = mmap(nullptr, PageBytes() + RoundToPages(data_bytes),
                   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  return static_cast<char*>(map) + PageBytes() - sizeof(Block);
}

void UnmapPages(Block* block, std::size_t data_bytes) {
  munmap(HeaderPage(block), PageBytes() + RoundToPages(data_bytes));
}

void EnableHiding() {
  static const bool once = [] {
    void* frames[2];
    backtrace(frames, 2);  // loads what the handler needs
    pthread_atfork([] { ring_mutex.LockForFork(); },
                   [] { ring_mutex.UnlockAfterFork(); },
                   [] { ring_mutex.UnlockAfterFork(); });
    InstallHandler();
    UsePages();
    return true;
  }();
  (void)once;
}

bool HideBlock(Block* block, const char* op) {
  if ((KindOf(block) & Block::kPages) == 0) return false;
  const MutexLock lock(ring_mutex);
  if (IsHidden(block)) return true;
  const std::size_t index = next_in_ring++ % kMaxHidden;
  Hidden& entry = ring[index];
  if (entry.block.load() != nullptr) RevealEntry(&entry);
  if (mprotect(block->data, RoundToPages(block->bytes), PROT_NONE) != 0) {
    return false;
  }
  entry.data = block->data;
  entry.bytes = block->bytes;
  entry.op = op;
  entry.frame_count = backtrace(entry.frames.data(), kMaxFrames);
  NoteOf(block).index = index;
  entry.block.store(block, std::memory_order_release);
  KindOf(block).fetch_or(Block::kHidden);
  return true;
}

void RevealBlock(Block* block) {
  if (!IsHidden(block)) return;
  const MutexLock lock(ring_mutex);
  if (IsHidden(block)) RevealEntry(&ring[NoteOf(block).index]);
}

void RevealAllBlocks() {
  const MutexLock lock(ring_mutex);
  for (Hidden& entry : ring) {
    if (entry.block.load() != nullptr) RevealEntry(&entry);
  }
}

}  // namespace tjit::runtime

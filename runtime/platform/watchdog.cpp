#include "runtime/platform/watchdog.h"

#if defined(TJIT_PLANTED_DEFECTS)

#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/platform/thread_context.h"

namespace tjit::runtime {
namespace {

struct Slot {
  std::atomic<std::int64_t> began_ns{0};  // 0: free
  std::atomic<const char*> what{nullptr};
  std::atomic<int> thread{0};
};
std::array<Slot, 1024> g_slots;
std::atomic<bool> g_is_on{false};
std::atomic<bool> g_has_printed{false};  // the thread that was asked last

std::int64_t NowNs() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

// The process is about to end: what cannot be written is lost.
void Write(const std::string& text) {
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

void PrintOwnStack(int) {
  std::array<void*, 64> frames{};
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  backtrace_symbols_fd(frames.data(), depth, STDERR_FILENO);
  g_has_printed.store(true);
}

std::vector<int> ThreadsOfProcess() {
  std::vector<int> threads;
  DIR* const dir = opendir("/proc/self/task");
  if (dir == nullptr) return threads;
  while (const dirent* entry = readdir(dir)) {
    const int thread = std::atoi(entry->d_name);
    if (thread > 0) threads.push_back(thread);
  }
  closedir(dir);
  return threads;
}

void PrintAllStacks() {
  constexpr int kSignal = SIGURG;  // ignored where nobody handles it
  struct sigaction action {};
  action.sa_handler = &PrintOwnStack;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(kSignal, &action, nullptr);
  for (const int thread : ThreadsOfProcess()) {
    if (thread == static_cast<int>(syscall(SYS_gettid))) continue;
    Write(absl::StrCat("thread ", thread, ":\n"));
    g_has_printed.store(false);
    if (syscall(SYS_tgkill, getpid(), thread, kSignal) != 0) continue;
    for (int i = 0; i < 200 && !g_has_printed.load(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

void Watch(std::int64_t seconds, std::string (*describe)()) {
  t_context.off = true;
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::int64_t latest = NowNs() - seconds * 1'000'000'000;
    for (const Slot& slot : g_slots) {
      const std::int64_t began = slot.began_ns.load();
      if (began == 0 || began > latest) continue;
      Write(absl::StrCat("tjit watchdog: thread ", slot.thread.load(), ", ",
                         slot.what.load(), ": longer than TJIT_WATCHDOG=",
                         seconds, " seconds\n", describe()));
      PrintAllStacks();
      std::abort();
    }
  }
}

}  // namespace

Watched::Watched(const char* what) {
  if (!g_is_on.load(std::memory_order_relaxed)) return;
  for (std::size_t i = 0; i < g_slots.size(); ++i) {
    Slot& slot = g_slots[i];
    std::int64_t free = 0;
    if (!slot.began_ns.compare_exchange_strong(free, INT64_MAX)) continue;
    slot.what.store(what);
    slot.thread.store(static_cast<int>(syscall(SYS_gettid)));
    slot.began_ns.store(NowNs());
    slot_ = static_cast<int>(i);
    return;
  }
}

Watched::~Watched() {
  if (slot_ >= 0) g_slots[static_cast<std::size_t>(slot_)].began_ns.store(0);
}

void StartWatchdog(std::int64_t seconds, std::string (*describe)()) {
  if (g_is_on.exchange(true)) return;
  // The first backtrace() loads a library, which takes locks.
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);
  std::thread([=] { Watch(seconds, describe); }).detach();
}

}  // namespace tjit::runtime

#endif

#include "runtime/report/attach.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

#include "runtime/report/log_writers.h"
#include "support/mutex.h"

namespace tjit::runtime {

constinit AttachPage g_attach_page;

namespace {

// Until when the log goes that was asked for; 0: there is none.
std::atomic<std::uint64_t> g_attached_until_ns{0};

constexpr std::uint64_t kNsPerMs = 1000000;

// One request at a time.
constinit Mutex g_control;
std::uint32_t g_token ABSL_GUARDED_BY(g_control) = 0;  // of the log that runs

// The descriptor of the page, and what file it was.
int g_file = -1;
struct stat g_file_is{};

void Answer(AttachState state, std::string_view text)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(g_control) {
  const std::size_t bytes = std::min(text.size(), kAttachTextBytes - 1);
  std::memcpy(g_attach_page.text, text.data(), bytes);
  g_attach_page.text[bytes] = '\0';
  g_attach_page.answer.store({g_token, state}, std::memory_order_release);
}

// Past this limit the kernel would not only refuse but send a SIGXFSZ.
bool MayHaveFile() {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
         (limit.rlim_cur == RLIM_INFINITY ||
          limit.rlim_cur >= sizeof(AttachPage));
}

// A file in memory that nobody may cut short: that would be a SIGBUS here. Its
// number is high, as programs may count on low ones.
int MakePageFile() {
#ifndef MFD_NOEXEC_SEAL
  constexpr unsigned MFD_NOEXEC_SEAL = 8;
#endif
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  constexpr int kHighNumber = 100;
  int fd = memfd_create(kAttachPageName, kFlags | MFD_NOEXEC_SEAL);
  if (fd < 0) fd = memfd_create(kAttachPageName, kFlags);  // an older kernel
  if (fd < 0) return -1;
  if (const int high = fcntl(fd, F_DUPFD_CLOEXEC, kHighNumber); high >= 0) {
    close(std::exchange(fd, high));
  }
  if (ftruncate(fd, sizeof(AttachPage)) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    return fd;
  }
  close(fd);
  return -1;
}

// Lays a shared page over the variable, with `word`. False if it cannot be had.
bool SharePage(std::uint32_t word) {
  const auto system_page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (system_page > kAttachAlignment || !MayHaveFile()) return false;
  const std::uint32_t is_on = g_attach_page.is_on.load();
  const int fd = MakePageFile();
  void* const made = fd < 0 ? MAP_FAILED
                            : mmap(nullptr, sizeof(AttachPage),
                                   PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (made == MAP_FAILED || fstat(fd, &g_file_is) != 0) {
    if (fd >= 0) close(fd);
    return false;
  }
  auto* const page = static_cast<AttachPage*>(made);
  page->version = kAttachVersion;
  page->pid = static_cast<std::uint32_t>(getpid());
  page->is_on.store(is_on);
  page->word.store(word);
  std::memcpy(page->magic, kAttachMagic, sizeof(kAttachMagic));
  if (mremap(made, sizeof(AttachPage), sizeof(AttachPage),
             MREMAP_MAYMOVE | MREMAP_FIXED, &g_attach_page) == MAP_FAILED) {
    munmap(made, sizeof(AttachPage));
    close(fd);
    return false;
  }
  g_file = fd;
  return true;
}

// Takes the parent's page away.
void UnsharePage(std::uint32_t word) {
  const std::uint32_t is_on = g_attach_page.is_on.load();
  if (mmap(&g_attach_page, sizeof(AttachPage), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
    return;
  }
  g_attach_page.is_on.store(is_on);
  g_attach_page.word.store(word);
}

// The program may have closed the descriptor, and given its number to a file of
// its own.
void ClosePageFile() {
  struct stat is{};
  if (g_file >= 0 && fstat(g_file, &is) == 0 && is.st_ino == g_file_is.st_ino &&
      is.st_dev == g_file_is.st_dev) {
    close(g_file);
  }
  g_file = -1;
}

void End(std::string_view why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(g_control) {
  if (g_attached_until_ns.exchange(0) == 0) return;
  g_attach_page.word.fetch_and(~kAttachLogs);
  EndPassingLog();
  Answer(AttachState::kEnded, why);
}

bool Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(g_control) {
  const AttachPage& page = g_attach_page;
  if (page.answer.load().state == AttachState::kOwnLog) return false;
  End("another `tjit attach` has begun");
  g_token = page.token;
  const std::string path(page.path, strnlen(page.path, sizeof(page.path)));
  const std::uint64_t length_ns =
      std::min(page.length_ms, kAttachMostMs) * kNsPerMs;
  Answer(AttachState::kStarting, "");
  const std::string why = BeginPassingLog(
      path, static_cast<long long>(std::min(page.mb, kAttachMostMb)));
  if (!why.empty()) {
    Answer(AttachState::kRefused, why);
    return false;
  }
  g_attached_until_ns.store(LogNowNs() + std::max<std::uint64_t>(length_ns, 1));
  g_attach_page.word.fetch_or(kAttachLogs);
  Answer(AttachState::kRuns, path);
  return true;
}

}  // namespace

void OfferAttach() { SharePage(0); }

void OfferAttachInChild(bool logs) {
  const std::uint32_t word = logs ? kAttachLogs : 0;
  g_attached_until_ns.store(0);
  const bool was_shared = g_file >= 0;
  ClosePageFile();
  if (!SharePage(word) && was_shared) UnsharePage(word);
}

void SetAttachOn(bool is_on) {
  const MutexLock lock(g_control);
  if (!is_on) End("tjit was switched off in the process");
  g_attach_page.is_on.store(is_on ? 1 : 0);
}

void RefuseAttach(const std::string& own_log) {
  const MutexLock lock(g_control);
  g_token = 0;
  Answer(AttachState::kOwnLog, own_log);
  g_attach_page.word.fetch_or(kAttachLogs);
}

// A thread that was cancelled may have the mutex.
void EndAttachAtExit() {
  if (!g_control.try_lock()) return;
  const MutexLock lock(g_control, std::adopt_lock);
  if (g_attach_page.pid != static_cast<std::uint32_t>(getpid()) ||
      g_attached_until_ns.exchange(0) == 0) {
    return;
  }
  Answer(AttachState::kEnded, "the process has ended meanwhile");
}

namespace {

bool AnswerAttach() {
  if (!g_control.try_lock()) return false;
  const MutexLock lock(g_control, std::adopt_lock);
  AttachPage& page = g_attach_page;
  // A child that was made without the handlers of fork() has the page as well.
  if (page.pid != static_cast<std::uint32_t>(getpid())) return false;
  const std::uint64_t until_ns = g_attached_until_ns.load();
  if (until_ns != 0 && LogNowNs() >= until_ns) End("");
  if ((page.word.load() & kAttachAsked) == 0) return false;
  page.word.fetch_and(~kAttachAsked);
  const AttachRequest request = page.request.exchange(AttachRequest::kNone);
  if (request == AttachRequest::kStop) End("");
  if (request != AttachRequest::kStart) return false;
  try {
    return Start();
  } catch (const std::exception& e) {  // no memory: the op goes on
    Answer(AttachState::kRefused, e.what());
    return false;
  }
}

}  // namespace

bool LookAtAttach() {
  const std::uint64_t until_ns =
      g_attached_until_ns.load(std::memory_order_relaxed);
  const bool is_over = until_ns != 0 && LogNowNs() >= until_ns;
  const bool is_asked =
      (g_attach_page.word.load(std::memory_order_relaxed) & kAttachAsked) != 0;
  return (is_over || is_asked) && AnswerAttach();
}

void LockAttachForFork() { g_control.LockForFork(); }
void UnlockAttachAfterFork() { g_control.UnlockAfterFork(); }

}  // namespace tjit::runtime

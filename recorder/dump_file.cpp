#include "recorder/dump_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "recorder/log.h"

namespace tjit {
namespace {

constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;

}  // namespace

DumpFile::~DumpFile() {
  if (fd_ > STDERR_FILENO) close(fd_);
}

void DumpFile::Open() {
  if (path_.empty()) {
    fd_ = STDERR_FILENO;
    return;
  }
  fd_ = open(path_.c_str(), kFlags, 0666);
  if (fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(fd_);
    fd_ = open(absl::StrCat(path_, ".", getpid()).c_str(), kFlags, 0666);
  }
  if (fd_ < 0) return SayLost();
  // Fails on what is no file, /dev/stdout or a pipe, where it means nothing.
  static_cast<void>(ftruncate(fd_, 0) == 0);
}

void DumpFile::Write(std::string_view text) {
  std::call_once(is_open_, [this] { Open(); });
  while (fd_ >= 0 && !text.empty()) {
    const ssize_t n = write(fd_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return SayLost();
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

void DumpFile::SayLost() {
  if (is_lost_.exchange(true)) return;
  LogLine(LogLevel::kWarning,
          absl::StrCat("tjit: TJIT_DUMP_FILE: cannot write \"", path_,
                       "\": ", std::strerror(errno), "; the dump is lost"));
}

}  // namespace tjit

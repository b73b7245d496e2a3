#include "support/dump_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "support/log.h"
#include "support/output_file.h"

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
  fd_ = OpenFile(path_);
  if (fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(fd_);
    fd_ = OpenFile(absl::StrCat(path_, ".", getpid()));
  }
  // Fails on what is no file, a device or a pipe, where it means nothing.
  if (fd_ >= 0 && !IsStream(path_)) {
    static_cast<void>(ftruncate(fd_, 0) == 0);
  }
}

// -1, and said, if there is another's file, or none can be opened.
int DumpFile::OpenFile(const std::string& path) {
  const std::string why = WhyNotReplaced(path, kDumpFile);
  if (!why.empty()) {
    PrintLost(why);
    return -1;
  }
  const int fd = open(path.c_str(), kFlags, 0666);
  if (fd < 0) PrintLost(CannotWrite());
  return fd;
}

void DumpFile::Write(std::string_view text) {
  std::call_once(is_open_, [this] { Open(); });
  while (fd_ >= 0 && !text.empty()) {
    const ssize_t n = write(fd_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return PrintLost(CannotWrite());
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::string DumpFile::CannotWrite() const {
  return absl::StrCat("cannot write \"", path_,
                      "\": ", std::strerror(errno));
}

void DumpFile::PrintLost(const std::string& why) {
  if (is_lost_.exchange(true)) return;
  LogLine(LogLevel::kWarning, absl::StrCat("tjit: TJIT_DUMP_FILE: ", why,
                                           "; the dump is lost"));
}

}  // namespace tjit

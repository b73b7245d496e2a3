#include "recorder/instruction_log_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "support/log.h"
#include "support/mutex.h"
#include "support/output_file.h"
#include "support/process_info.h"

namespace tjit {

LogFile::~LogFile() { Abandon(); }

bool LogFile::Open(const std::string& path, bool is_child,
                   std::uint32_t max_chunks) {
  const MutexLock lock(mutex_);
  max_chunks_ = max_chunks;
  fd_ = is_child ? -1 : OpenLocked(path);
  if (is_child || (fd_ < 0 && errno == EWOULDBLOCK)) {
    fd_ = OpenLocked(absl::StrCat(path, ".", getpid()));
  }
  return BeginFirst();
}

std::string LogFile::OpenOrSayWhy(const std::string& path,
                                  std::uint32_t max_chunks) {
  const MutexLock lock(mutex_);
  std::string why;
  why_ = &why;
  asked_by_ = "tjit attach";
  max_chunks_ = max_chunks;
  fd_ = OpenLocked(path);
  if (fd_ < 0 && errno == EWOULDBLOCK) {
    End(absl::StrCat("cannot write \"", path,
                     "\": another process writes a log there now"));
  }
  BeginFirst();
  why_ = nullptr;
  return why;
}

bool LogFile::BeginFirst() {
  if (ended_ || !Begin(0)) return false;
  return max_chunks_ == 0 || PrepareParts();
}

// A name that stays: not of a link, and of a file that may get PATH.old.
bool LogFile::PrepareParts() {
  char name[PATH_MAX];
  if (realpath(path_.c_str(), name) != nullptr) path_ = name;
  const std::string why =
      WhyNotReplaced(absl::StrCat(path_, kOldPart), kLogFile);
  if (!why.empty()) End(why);
  return why.empty();
}

// Writes the header of the file that was opened.
bool LogFile::Begin(std::uint32_t part) {
  if (!Empty() || !Extend(0)) return false;
  void* page = mmap(nullptr, kLogPageBytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_POPULATE, fd_, 0);
  if (page == MAP_FAILED) {
    Stop(std::strerror(errno));
    return false;
  }
  header_ = static_cast<LogFileHeader*>(page);
  header_->version = kLogVersion;
  header_->chunk_bytes = kLogChunkBytes;
  header_->pid = static_cast<std::uint32_t>(getpid());
  header_->part = part;
  std::strncpy(header_->tjit, Version(), sizeof(header_->tjit) - 1);
  std::strncpy(header_->program, CommandLine().c_str(),
               sizeof(header_->program) - 1);
  std::memcpy(header_->magic, kLogMagic, sizeof(kLogMagic));
  return true;
}

// The file, ours alone where it is a file; else -1 and errno, EWOULDBLOCK if
// another process has it. Ends the log if there is what is no log.
int LogFile::OpenLocked(const std::string& path) {
  path_ = path;
  const std::string why = IsStream(path) ? absl::StrCat(
      "cannot write \"", path, "\": it is no file of its own") :
      WhyNotReplaced(path, kLogFile);
  if (!why.empty()) {
    End(why);
    errno = EEXIST;
    return -1;
  }
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
    return fd;
  }
  close(fd);
  errno = EWOULDBLOCK;
  return -1;
}

bool LogFile::Empty() {
  struct stat file {};
  if (fd_ < 0 || fstat(fd_, &file) != 0) {
    Stop(std::strerror(errno));
    return false;
  }
  if (!S_ISREG(file.st_mode)) {
    Stop("not a regular file");
    return false;
  }
  // Ours from its first byte on, whatever comes.
  if (ftruncate(fd_, 0) == 0 &&
      pwrite(fd_, kLogMagic, sizeof(kLogMagic), 0) == sizeof(kLogMagic)) {
    return true;
  }
  Stop(std::strerror(errno));
  return false;
}

// Makes room for so many chunks: a page of a mapped file that the disk has no
// room for would be a SIGBUS at the store.
bool LogFile::Extend(std::uint32_t chunks) {
  const auto begin = static_cast<off_t>(
      chunks == 0 ? 0
                  : kLogPageBytes + std::uint64_t{chunks - 1} * kLogChunkBytes);
  const off_t bytes = chunks == 0 ? kLogPageBytes : kLogChunkBytes;
  rlimit limit{};
  // Past this limit the kernel would not only refuse but send a SIGXFSZ.
  int error = 0;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      static_cast<rlim_t>(begin + bytes) > limit.rlim_cur) {
    error = EFBIG;
  }
  if (error == 0) error = posix_fallocate(fd_, begin, bytes);
  if (error == 0) return true;
  Stop(std::strerror(error));
  return false;
}

// Said once: after it the log has ended.
void LogFile::Stop(const std::string& why) {
  End(absl::StrCat("cannot write \"", path_, "\": ", why));
}

void LogFile::End(const std::string& why) {
  const bool begun =
      part() != 0 || (header_ != nullptr && header_->chunks != 0);
  if (why_ != nullptr) {
    *why_ = why;
  } else {
    LogLine(LogLevel::kWarning,
            absl::StrCat("tjit: ", asked_by_, ": ", why,
                         begun ? "; the log ends here, the program goes on"
                               : "; this run is not logged"));
  }
  ended_ = true;
  // The lock stays with what is mapped: nobody may empty the file yet.
  if (header_ != nullptr) {
    header_->end = static_cast<std::uint32_t>(LogEnd::kNoSpace);
  } else if (fd_ >= 0) {
    close(std::exchange(fd_, -1));
  }
}

void LogFile::Close(LogEnd end) {
  const MutexLock lock(mutex_);
  if (header_ != nullptr && !ended_) {
    header_->end = static_cast<std::uint32_t>(end);
  }
  ended_ = true;
}

void LogFile::Abandon() {
  if (header_ != nullptr) {
    munmap(std::exchange(header_, nullptr), kLogPageBytes);
  }
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

void LogFile::BeginPartAfter(std::uint32_t part) {
  const MutexLock lock(mutex_);
  if (this->part() != part || !IsFull()) return;
  // Streams begin anew in any case: if nothing goes on they find it ended.
  state_.store(2 * (part + 1), std::memory_order_relaxed);
  if (ended_ || !MakeOld()) return;
  fd_ = OpenLocked(std::string(path_));
  if (!ended_) Begin(part + 1);
}

// Lets the file go, as PATH.old.
bool LogFile::MakeOld() {
  const std::string old = absl::StrCat(path_, kOldPart);
  const std::string why = WhyNotReplaced(old, kLogFile);
  if (!why.empty()) {
    End(why);
    return false;
  }
  struct stat ours{}, there{};
  if (fstat(fd_, &ours) != 0 || stat(path_.c_str(), &there) != 0 ||
      ours.st_ino != there.st_ino || ours.st_dev != there.st_dev) {
    End(absl::StrCat("\"", path_, "\" is another file by now"));
    return false;
  }
  header_->end = static_cast<std::uint32_t>(LogEnd::kContinued);
  if (rename(path_.c_str(), old.c_str()) != 0) {
    Stop(absl::StrCat("it cannot be renamed to \"", old,
                      "\": ", std::strerror(errno)));
    return false;
  }
  Abandon();
  return true;
}

LogRecord* LogFile::NewChunk(const LogChunkHeader& header, std::uint32_t part) {
  const MutexLock lock(mutex_);
  if (ended_ || part != this->part() || !Extend(header_->chunks + 1)) {
    return nullptr;
  }
  void* chunk =
      mmap(nullptr, kLogChunkBytes, PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_POPULATE, fd_,
           static_cast<off_t>(kLogPageBytes +
                              std::uint64_t{header_->chunks} * kLogChunkBytes));
  if (chunk == MAP_FAILED) {
    Stop(std::strerror(errno));
    return nullptr;
  }
  std::memcpy(chunk, &header, sizeof(header));
  std::atomic_ref<std::uint32_t>(header_->chunks)
      .store(header_->chunks + 1, std::memory_order_release);
  // Each stream has one at least.
  streams_ = std::max(streams_, header.stream + 1);
  if (max_chunks_ != 0 &&
      header_->chunks > std::max(max_chunks_, 2 * streams_)) {
    state_.store(2 * part | kFull, std::memory_order_relaxed);
  }
  return static_cast<LogRecord*>(chunk);
}

}  // namespace tjit

#include "recorder/instruction_log_chunks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tjit {
namespace {

// Reads up to `bytes`; returns how many there were.
std::size_t ReadAt(int fd, void* out, std::size_t bytes, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t n = pread(fd, static_cast<char*>(out) + done, bytes - done,
                            static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

std::uint64_t OffsetOf(std::uint32_t chunk) {
  return kLogPageBytes + std::uint64_t{chunk} * kLogChunkBytes;
}

}  // namespace

bool ParseLogText(const LogRecord* record, LogTextView* text) {
  LogText head{};
  const std::size_t bytes = record->extra;
  if (bytes >= sizeof(head)) std::memcpy(&head, record + 1, sizeof(head));
  if (bytes < sizeof(head) || head.command_bytes > bytes - sizeof(head)) {
    return false;
  }
  const char* chars = reinterpret_cast<const char*>(record + 1) + sizeof(head);
  text->parent = head.parent;
  text->bytes = head.bytes;
  text->command = {chars, head.command_bytes};
  text->details = {chars + head.command_bytes,
                   bytes - sizeof(head) - head.command_bytes};
  return true;
}

LogChunks::~LogChunks() {
  if (fd_ >= 0) close(fd_);
}

LogChunks::Opened LogChunks::Open(const std::string& path, std::string* why) {
  if (fd_ >= 0) close(fd_);
  header_ = {};
  count_ = 0;
  fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat file{};
  if (fd_ < 0 || fstat(fd_, &file) != 0) {
    *why = std::strerror(errno);
    return Opened::kUnreadable;
  }
  *why = "it is no instruction log of tjit";
  if (S_ISDIR(file.st_mode)) *why = "it is a folder";
  if (!S_ISREG(file.st_mode)) return Opened::kNotALog;
  const std::size_t n = ReadAt(fd_, &header_, sizeof(header_), 0);
  if (n == 0) *why = "it is empty";
  // What is left of the magic word has to be one.
  const std::size_t shown = std::min(n, sizeof(header_.magic));
  if (n == 0 || std::memcmp(header_.magic, kLogMagic, shown) != 0) {
    return Opened::kNotALog;
  }
  if (n == sizeof(header_) &&
      (header_.version < kOldestLogVersion || header_.version > kLogVersion ||
       header_.chunk_bytes != kLogChunkBytes)) {
    *why = absl::StrCat("it is of version ", header_.version,
                        ", this tjit reads versions ", kOldestLogVersion,
                        " to ", kLogVersion);
    return Opened::kNotALog;
  }
  Update();
  return Opened::kYes;
}

void LogChunks::Update() {
  struct stat file{};
  if (fstat(fd_, &file) == 0) {
    file_bytes_ = static_cast<std::uint64_t>(file.st_size);
  }
  if (ReadAt(fd_, &header_, sizeof(header_), 0) < sizeof(header_)) {
    header_.chunks = 0;
  }
  const std::uint64_t begun =
      file_bytes_ <= kLogPageBytes
          ? 0
          : (file_bytes_ - kLogPageBytes + kLogChunkBytes - 1) / kLogChunkBytes;
  count_ = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(header_.chunks, begun));
}

std::string LogChunks::tjit_version() const {
  return {header_.tjit, strnlen(header_.tjit, sizeof(header_.tjit))};
}

std::string LogChunks::program() const {
  return {header_.program, strnlen(header_.program, sizeof(header_.program))};
}

bool LogChunks::HasEnded() const {
  if (static_cast<LogEnd>(header_.end) != LogEnd::kRunning) return true;
  return kill(static_cast<pid_t>(header_.pid), 0) != 0 && errno == ESRCH;
}

std::string LogChunks::Missing() const {
  const std::uint64_t whole = OffsetOf(header_.chunks);
  if (file_bytes_ < kLogPageBytes) {
    return "the file is cut short within its first page, all rows are missing";
  }
  if (file_bytes_ < whole) {
    return absl::StrCat("the file is cut short: ", whole - file_bytes_, " of ",
                        whole, " bytes are missing, with the rows in them");
  }
  return {};
}

bool LogChunks::ReadHead(std::uint32_t chunk, LogChunkHeader* head) const {
  return ReadAt(fd_, head, sizeof(*head), OffsetOf(chunk)) == sizeof(*head);
}

std::size_t LogChunks::Read(std::uint32_t chunk, std::uint32_t slot,
                            LogRecord* records, std::size_t count) const {
  const std::size_t wanted =
      std::min<std::size_t>(count, kLogRecordsPerChunk - slot);
  return ReadAt(fd_, records, wanted * sizeof(LogRecord),
                OffsetOf(chunk) + std::uint64_t{slot} * sizeof(LogRecord)) /
         sizeof(LogRecord);
}

}  // namespace tjit

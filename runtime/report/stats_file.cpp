#include "runtime/report/stats_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "runtime/report/log.h"
#include "support/log.h"
#include "support/output_file.h"

namespace tjit::runtime {
namespace {

constexpr char kReport[] = "-";
constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC;

timespec Now() {
  timespec now{};
  // The clock of file times, which ticks more coarsely than the usual one.
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now;
}

std::string OwnName(const std::string& path) {
  return path + "." + std::to_string(getpid());
}

void PrintLost(const std::string& path) {
  LogWarning("TJIT_STATS: cannot write \"" + path + "\": " +
             std::strerror(errno) + "; the counters of this run are lost");
}

// -1 and a message if the file cannot be written, or is somebody else's.
int Open(const std::string& path) {
  const std::string why = WhyNotReplaced(path, kStatsFile);
  if (!why.empty()) {
    LogWarning("TJIT_STATS: " + why + "; the counters of this run are lost");
    return -1;
  }
  const int flags = IsStream(path) ? kFlags | O_APPEND : kFlags;
  const int fd = open(path.c_str(), flags, 0666);
  if (fd < 0) PrintLost(path);
  return fd;
}

// An old run's counters would mislead. What is no file of its own stays.
void Empty(int fd, const std::string& path) {
  struct stat file {};
  if (fd < 0 || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) return;
  if (!IsStream(path) && ftruncate(fd, 0) != 0) PrintLost(path);
}

int OpenEmpty(const std::string& path) {
  const int fd = Open(path);
  Empty(fd, path);
  return fd;
}

// True for a file of a process that saw no op, as `tjit run` leaves it.
bool HasZerosOnly(const std::string& path) {
  const std::string zeros = std::string(kStatsFile.beginning) + "0,";
  std::string bytes(zeros.size(), '\0');
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  const ssize_t n = pread(fd, bytes.data(), bytes.size(), 0);
  close(fd);
  return n == static_cast<ssize_t>(zeros.size()) && bytes == zeros;
}

std::string WithoutLastNewline(std::string text) {
  if (!text.empty()) text.pop_back();
  return text;
}

bool WrittenSince(const std::string& path, const timespec& then) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) return false;
  const timespec& at = file.st_mtim;
  return at.tv_sec != then.tv_sec ? at.tv_sec > then.tv_sec
                                  : at.tv_nsec >= then.tv_nsec;
}

}  // namespace

StatsFile::StatsFile() : pid_(getpid()), began_(Now()) {}

void StatsFile::Claim(const std::string& path) {
  if (path.empty() || path == kReport || path == claimed_ || getpid() != pid_) return;
  if (fd_ >= 0) close(fd_);
  claimed_ = path;
  fd_ = Open(path);
  struct stat file {};
  const bool is_file = fd_ >= 0 && fstat(fd_, &file) == 0 &&
                       S_ISREG(file.st_mode);
  // Devices, pipes and streams are everybody's.
  if (is_file && !IsStream(path) && flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(fd_);
    fd_ = OpenEmpty(OwnName(path));
    return;
  }
  Empty(fd_, path);
}

void StatsFile::Write(const std::string& path, const Stats& stats,
                      const std::string& why_none, const Explainer& explain) {
  if (path.empty()) return;
  const bool is_child = getpid() != pid_;
  const Stats mine = is_child ? stats - at_fork_ : stats;
  if (is_child && mine.ops_seen == 0) return;
  Explanation explanation = explain(mine);
  if (mine.ops_seen == 0) explanation.why = why_none;
  if (path == kReport) {
    LogLine(LogLevel::kInfo, WithoutLastNewline(ToText(explanation)));
    return;
  }
  const std::string json = WithLists(mine.to_json(), explanation);
  if (is_child) {
    const std::string own = OwnName(path);
    return WriteTo(OpenEmpty(own), own, json);
  }
  if (path != claimed_) {
    if (stats.ops_seen == 0 && WrittenSince(path, began_) &&
        !HasZerosOnly(path)) {
      return;
    }
    Claim(path);
  }
  WriteTo(fd_, path, json);
  fd_ = -1;
  claimed_.clear();
}

void StatsFile::WriteTo(int fd, const std::string& path,
                        const std::string& text) {
  if (fd < 0) return;  // said before
  Empty(fd, path);
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      PrintLost(path);
      break;
    }
    done += static_cast<std::size_t>(n);
  }
  close(fd);
}

}  // namespace tjit::runtime

#include "runtime/stats_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "recorder/log.h"
#include "runtime/log.h"

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

void SayLost(const std::string& path) {
  LogWarning("TJIT_STATS: cannot write \"" + path + "\": " +
             std::strerror(errno) + "; the counters of this run are lost");
}

// Empties the file; -1 and a message if it cannot be written.
int Open(const std::string& path) {
  const int fd = open(path.c_str(), kFlags | O_TRUNC, 0666);
  if (fd < 0) SayLost(path);
  return fd;
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
  fd_ = open(path.c_str(), kFlags, 0666);
  if (fd_ < 0) return SayLost(path);
  struct stat file {};
  if (fstat(fd_, &file) != 0 || !S_ISREG(file.st_mode)) return;
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(fd_);
    fd_ = Open(OwnName(path));
    return;
  }
  // Empty until the process ends: an old run's counters would mislead.
  if (ftruncate(fd_, 0) != 0) SayLost(path);
}

void StatsFile::Write(const std::string& path, const Stats& stats,
                      const Explainer& explain) {
  if (path.empty()) return;
  const bool is_child = getpid() != pid_;
  const Stats mine = is_child ? stats - at_fork_ : stats;
  if (is_child && mine.ops_seen == 0) return;
  const Explanation explanation = explain(mine);
  if (path == kReport) {
    LogLine(LogLevel::kInfo, WithoutLastNewline(ToText(explanation)));
    return;
  }
  const std::string json = WithLists(mine.to_json(), explanation);
  if (is_child) {
    const std::string own = OwnName(path);
    return WriteTo(Open(own), own, json);
  }
  if (path != claimed_) {
    if (stats.ops_seen == 0 && WrittenSince(path, began_)) return;
    Claim(path);
  }
  WriteTo(fd_, path, json);
  fd_ = -1;
  claimed_.clear();
}

void StatsFile::WriteTo(int fd, const std::string& path,
                        const std::string& text) {
  if (fd < 0) return;  // said before
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      SayLost(path);
      break;
    }
    done += static_cast<std::size_t>(n);
  }
  close(fd);
}

}  // namespace tjit::runtime

#include "compiler/cache/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "compiler/cache/entry.h"

namespace tjit::cache {
namespace {

constexpr char kUnfinished[] = ".writing-";
constexpr std::int64_t kAbandonedAfter = 3600;  // seconds
// A use is noted once in this time: reading need not write.
constexpr std::int64_t kNoteUseEvery = 3600;  // seconds
constexpr std::uint64_t kMaxFile = 1 << 30;
constexpr std::uint64_t kDiskBlock = 4096;

std::string Error() { return std::strerror(errno); }

std::string PathOf(const std::string& folder, const std::string& name) {
  return absl::StrCat(folder, "/", name);
}

std::int64_t Now() { return static_cast<std::int64_t>(std::time(nullptr)); }

// The names of everything in the folder.
std::string Names(const std::string& folder, std::vector<std::string>* names) {
  DIR* const open = opendir(folder.c_str());
  if (open == nullptr) return Error();
  while (const dirent* entry = readdir(open)) names->push_back(entry->d_name);
  closedir(open);
  std::sort(names->begin(), names->end());
  return "";
}

std::string ReadAll(int fd, std::uint64_t size, std::string* bytes) {
  if (size > kMaxFile) return "it is too large";
  bytes->resize(size);
  std::size_t at = 0;
  while (at < size) {
    const ssize_t n = ::read(fd, bytes->data() + at, size - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error();
    if (n == 0) break;
    at += static_cast<std::size_t>(n);
  }
  bytes->resize(at);
  return "";
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

void RemoveUnfinished(const std::string& folder) {
  std::vector<std::string> names;
  Names(folder, &names);
  for (const std::string& name : names) {
    struct stat info;
    const std::string path = PathOf(folder, name);
    if (name.starts_with(kUnfinished) && lstat(path.c_str(), &info) == 0 &&
        info.st_mtime < Now() - kAbandonedAfter) {
      unlink(path.c_str());
    }
  }
}

}  // namespace

std::string CheckFolder(const std::string& folder, bool* is_there) {
  struct stat info;
  *is_there = stat(folder.c_str(), &info) == 0;
  if (!*is_there) return errno == ENOENT ? "" : Error();
  if (!S_ISDIR(info.st_mode)) return "it is no folder";
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return "it belongs to another user";
  }
  if ((info.st_mode & S_IWOTH) != 0) {
    return "every user may write to it, and code is loaded from it";
  }
  return "";
}

std::string MakeFolder(const std::string& folder) {
  for (std::size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
    const std::string part = folder.substr(0, end);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      const int why = errno;
      struct stat info;  // a folder above may be there and not be ours
      if (stat(part.c_str(), &info) != 0) {
        return absl::StrCat(part, ": ", std::strerror(why));
      }
    }
    if (end == std::string::npos) return "";
  }
}

std::string List(const std::string& folder, std::vector<FileInfo>* files) {
  std::vector<std::string> names;
  const std::string error = Names(folder, &names);
  for (std::string& name : names) {
    struct stat info;
    if (!IsFileName(name) ||
        lstat(PathOf(folder, name).c_str(), &info) != 0) {
      continue;  // or removed meanwhile
    }
    files->push_back({std::move(name), static_cast<std::uint64_t>(info.st_size),
                      static_cast<std::int64_t>(info.st_mtime)});
  }
  return error;
}

std::string Read(const std::string& path, std::string* bytes, bool* is_there) {
  const int fd =
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  *is_there = fd >= 0 || errno != ENOENT;
  if (fd < 0) return *is_there ? Error() : "";
  struct stat info;
  std::string error;
  if (fstat(fd, &info) != 0) {
    error = Error();
  } else if (!S_ISREG(info.st_mode)) {
    error = "it is no file";
  } else {
    error = ReadAll(fd, static_cast<std::uint64_t>(info.st_size), bytes);
    // Fails in a folder that is for reading only, where nothing is thrown out.
    if (info.st_mtime < Now() - kNoteUseEvery) futimens(fd, nullptr);
  }
  close(fd);
  return error;
}

std::string Write(const std::string& folder, const std::string& name,
                  std::string_view bytes) {
  static std::atomic<int> count{0};
  const std::string path = PathOf(
      folder, absl::StrCat(kUnfinished, getpid(), "-", count.fetch_add(1)));
  // One of that name is what a process of this number has left.
  unlink(path.c_str());
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return Error();
  std::string error;
  if (!WriteAll(fd, bytes)) error = Error();
  if (close(fd) != 0 && error.empty()) error = Error();
  if (error.empty() &&
      rename(path.c_str(), PathOf(folder, name).c_str()) != 0) {
    error = Error();
  }
  if (!error.empty()) unlink(path.c_str());
  return error;
}

std::uint64_t Trim(const std::string& folder, std::uint64_t max_bytes) {
  RemoveUnfinished(folder);
  std::vector<FileInfo> files;
  List(folder, &files);
  std::stable_sort(files.begin(), files.end(),
                   [](const auto& a, const auto& b) { return a.used < b.used; });
  std::uint64_t sum = 0;
  for (FileInfo& file : files) {
    file.bytes = (file.bytes + kDiskBlock - 1) / kDiskBlock * kDiskBlock;
    sum += file.bytes;
  }
  // Some room more than is needed now, or each write would look again.
  if (sum > max_bytes) max_bytes = max_bytes / 8 * 7;
  for (const FileInfo& file : files) {
    if (sum <= max_bytes) break;
    unlink(PathOf(folder, file.name).c_str());
    sum -= file.bytes;
  }
  return sum;
}

}  // namespace tjit::cache

#include "support/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace tjit {
namespace {

constexpr std::size_t kShownBytes = 24;

// The first bytes of a file, as many as fit; false if it cannot be read.
bool ReadBeginning(const std::string& path, std::size_t bytes,
                   std::string* beginning) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  beginning->resize(bytes);
  ssize_t n = 0;
  do {
    n = pread(fd, beginning->data(), bytes, 0);
  } while (n < 0 && errno == EINTR);
  close(fd);
  beginning->resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  return n >= 0;
}

// In quotes, up to the first byte that does not belong into a line.
std::string Shown(std::string_view bytes) {
  std::string text;
  for (const char c : bytes.substr(0, kShownBytes)) {
    if (c < ' ' || c > '~') break;
    text += c;
  }
  return text.empty() ? "" : absl::StrCat(" that begin with \"", text, "\"");
}

}  // namespace

std::string WhyNotReplaced(const std::string& path, const FileKind& kind) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode) ||
      file.st_size == 0 || IsStream(path)) {
    return "";
  }
  constexpr const char kAdvice[] = "; name another file, or remove this one";
  std::string bytes;
  if (!ReadBeginning(path, kind.beginning.size() + kShownBytes, &bytes)) {
    return absl::StrCat("will not replace \"", path, "\": whether it is a ",
                        kind.what, " of tjit cannot be read (",
                        std::strerror(errno), ")", kAdvice);
  }
  const std::string_view begins = std::string_view(bytes).substr(
      0, kind.beginning.size());
  // One that was cut short is ours, too.
  if (kind.beginning.starts_with(begins)) return "";
  return absl::StrCat("will not replace \"", path, "\": it is no ", kind.what,
                      " of tjit, but ", file.st_size, " bytes", Shown(bytes),
                      kAdvice);
}

std::string WhyNotWritable(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) == 0) {
    if (S_ISDIR(file.st_mode)) return std::strerror(EISDIR);
    return access(path.c_str(), W_OK) == 0 ? "" : std::strerror(errno);
  }
  if (errno != ENOENT) return std::strerror(errno);
  // A link that leads nowhere: its target would be made, mostly.
  if (lstat(path.c_str(), &file) == 0) return "";
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                          : path.substr(0, slash);
  if (slash + 1 == path.size()) return std::strerror(EISDIR);
  return access(folder.c_str(), W_OK | X_OK) == 0 ? "" : std::strerror(errno);
}

bool IsStream(const std::string& name) {
  constexpr int kMaxLinks = 40;
  std::error_code none;
  std::filesystem::path path = std::filesystem::absolute(name, none);
  if (none) path = name;
  for (int i = 0; i < kMaxLinks; ++i) {
    path = path.lexically_normal();
    const std::string text = path.string();
    if (text == "/dev/stdin" || text == "/dev/stdout" ||
        text == "/dev/stderr" || text.starts_with("/dev/fd/") ||
        (text.starts_with("/proc/") &&
         text.find("/fd/") != std::string::npos)) {
      return true;
    }
    const auto target = std::filesystem::read_symlink(path, none);
    if (none) return false;
    path = path.parent_path() / target;
  }
  return false;
}

}  // namespace tjit

#include "tools/tjit/process_log.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "recorder/instruction_log_chunks.h"

namespace tjit::tools {
namespace {

namespace fs = std::filesystem;

// The owner's bits of the link say how the file is open.
bool IsOpenForWriting(const fs::path& link) {
  struct stat file{};
  return lstat(link.c_str(), &file) == 0 && (file.st_mode & S_IWUSR) != 0;
}

bool IsLog(const fs::path& link) {
  struct stat file{};
  if (stat(link.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) return false;
  char magic[sizeof(kLogMagic)] = {};
  std::ifstream(link, std::ios::binary).read(magic, sizeof(magic));
  return std::string_view(magic, sizeof(magic)) ==
         std::string_view(kLogMagic, sizeof(kLogMagic));
}

}  // namespace

std::string VariableOf(std::uint32_t pid, const std::string& name) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/environ"));
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return {};
}

std::string FindLogOf(std::uint32_t pid, std::string* path) {
  const std::string process = absl::StrCat("process ", pid);
  std::error_code error;
  if (!fs::exists(absl::StrCat("/proc/", pid), error)) {
    return absl::StrCat("there is no ", process);
  }
  fs::directory_iterator files(absl::StrCat("/proc/", pid, "/fd"), error);
  if (error) {
    return absl::StrCat("cannot see the files of ", process, ": ",
                        error.message(), "; name its log instead");
  }
  for (; files != fs::directory_iterator(); files.increment(error)) {
    if (error) break;
    const fs::path& link = files->path();
    if (IsOpenForWriting(link) && IsLog(link)) {
      // By its name, as a log of bounded size is another file later on.
      const fs::path named = fs::read_symlink(link, error);
      const bool is_it = !error && fs::equivalent(named, link, error) && !error;
      *path = is_it ? named : link;
      return {};
    }
  }
  const std::string named = VariableOf(pid, "TJIT_INSTRUCTION_LOG");
  if (!named.empty()) {
    return absl::StrCat(process, " writes no log yet, though its ",
                        "TJIT_INSTRUCTION_LOG is ", named,
                        ": the log begins with the first op of libtorch");
  }
  return absl::StrCat(process, " writes no instruction log: start it with ",
                      "`tjit run --log=FILE`, or have it write one now by ",
                      "`tjit attach ", pid, "`");
}

std::string StatusOf(std::uint32_t pid, const std::string& name) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return line.substr(name.size() + 1);
  }
  return {};
}

std::uint64_t ResidentKiB(std::uint32_t pid) {
  std::uint64_t kib = 0;
  std::istringstream(StatusOf(pid, "VmRSS")) >> kib;
  return kib;
}

}  // namespace tjit::tools

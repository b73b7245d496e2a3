#include "tools/tjit/program_file.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace tjit::tools {
namespace {

// Linux follows so many interpreters that are scripts themselves.
constexpr int kMaxInterpreters = 5;

bool IsRunnable(const std::string& file) {
  struct stat info;
  return stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         access(file.c_str(), X_OK) == 0;
}

// The interpreter that a "#!" line names.
std::string InterpreterOf(const std::string& head) {
  const std::size_t begin = head.find_first_not_of(" \t", 2);
  if (begin == std::string::npos) return {};
  return head.substr(begin, head.find_first_of(" \t\n\r", begin) - begin);
}

bool NeedsLoader(std::ifstream& file, const Elf64_Ehdr& header) {
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    file.seekg(
        static_cast<std::streamoff>(header.e_phoff + i * header.e_phentsize));
    if (!file.read(reinterpret_cast<char*>(&part), sizeof(part))) return true;
    if (part.p_type == PT_INTERP) return true;
  }
  return false;
}

}  // namespace

std::string FindProgram(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  const std::string folders = path == nullptr ? "/bin:/usr/bin" : path;
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t colon = std::min(folders.find(':', at), folders.size());
    // An empty entry is the current folder.
    const std::string folder = folders.substr(at, colon - at);
    const std::string file =
        absl::StrCat(folder.empty() ? "." : folder, "/", name);
    if (IsRunnable(file)) return file;
    at = colon + 1;
  }
  return {};
}

std::string WhyNotPreloaded(const std::string& program) {
  std::string path = program;
  for (int i = 0; i < kMaxInterpreters; ++i) {
    std::ifstream file(path, std::ios::binary);
    Elf64_Ehdr header = {};
    file.read(reinterpret_cast<char*>(&header), sizeof(header));
    const auto n = static_cast<std::size_t>(file.gcount());
    if (n > 2 && std::memcmp(&header, "#!", 2) == 0) {
      file.clear();
      file.seekg(0);
      std::string line;
      std::getline(file, line);
      path = InterpreterOf(line);
      continue;
    }
    if (n < EI_NIDENT || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
      return {};
    }
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || n < sizeof(header) ||
        header.e_machine != EM_X86_64) {
      return "it is built for another machine than tjit";
    }
    file.clear();
    if (!NeedsLoader(file, header)) return "it is statically linked";
    struct stat info;
    if (stat(path.c_str(), &info) == 0 &&
        (info.st_mode & (S_ISUID | S_ISGID)) != 0 && getuid() != 0) {
      return "it is set-uid, and the loader preloads nothing there";
    }
    return {};
  }
  return {};
}

}  // namespace tjit::tools

#include "tools/tjit/own_files.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace tjit::tools {

std::string OwnPath() {
  char self[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
  return n <= 0 ? "" : std::string(self, static_cast<std::size_t>(n));
}

std::string OwnLibrary(const std::string& name) {
  const std::string path = OwnPath();
  const std::string folder = path.substr(0, path.rfind('/'));
  for (const char* lib : {TJIT_BIN_TO_LIB, "../lib"}) {
    const std::string file = absl::StrCat(folder, "/", lib, "/", name);
    char real[PATH_MAX];
    if (realpath(file.c_str(), real) != nullptr) return real;
  }
  return {};
}

}  // namespace tjit::tools

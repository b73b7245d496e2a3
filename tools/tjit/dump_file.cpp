#include "tools/tjit/dump_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace tjit::tools {

std::string ReadDumpedFunctions(const std::string& path,
                                std::vector<DumpedFunction>* functions) {
  std::ostringstream all;
  errno = 0;
  if (path == "-") {
    all << std::cin.rdbuf();
  } else {
    std::ifstream file(path);
    if (!file || (!(all << file.rdbuf()) && errno != 0)) {
      return absl::StrCat("cannot read ", path, ": ", std::strerror(errno));
    }
  }
  std::string wrong;
  if (ReadFunctions(all.str(), functions, &wrong)) return "";
  return path + ":" + wrong;
}

}  // namespace tjit::tools

#include "bench/memory_use.h"

#include <sys/resource.h>

#include <fstream>
#include <sstream>
#include <string>

namespace tjit::bench {
namespace {

// A line of /proc/self/smaps that begins a mapping:
// "begin-end rwxp offset device inode path".
struct Mapping {
  std::string range, rights, offset, device, inode, path;

  bool is_generator() const {
    return path.find("libtjit_llvm.so") != std::string::npos;
  }
  bool is_code() const {
    return path.empty() && rights.find('x') != std::string::npos;
  }
};

}  // namespace

Resident ResidentMemory() {
  Resident out;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  out.peak = std::int64_t{usage.ru_maxrss} * 1024;
  std::ifstream maps("/proc/self/smaps");
  Mapping mapping;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name.back() != ':') {
      mapping = {};
      mapping.range = name;
      words >> mapping.rights >> mapping.offset >> mapping.device >>
          mapping.inode >> mapping.path;
    } else if (name == "Rss:") {
      std::int64_t kilobytes = 0;
      words >> kilobytes;
      out.now += kilobytes * 1024;
      if (mapping.is_generator()) out.generator += kilobytes * 1024;
      if (mapping.is_code()) out.code += kilobytes * 1024;
    }
  }
  return out;
}

}  // namespace tjit::bench

#include "runtime/platform/own_memory.h"

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

namespace tjit::runtime {
namespace {

bool IsDebugged() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("TracerPid:"))
      return line.find_last_of("123456789") != std::string::npos;
  }
  return true;  // nobody knows
}

// Whatever is not writable is as it is in the file.
int DropPages(dl_phdr_info* info, std::size_t /*size*/, void* /*data*/) {
  const std::string_view path = info->dlpi_name;
  if (!path.ends_with("/libtjit.so") && !path.ends_with("/libtjit_llvm.so")) {
    return 0;
  }
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_W) != 0) continue;
    // Whole pages: writable data may share the first or the last one.
    const std::uintptr_t first = info->dlpi_addr + part.p_vaddr;
    const std::uintptr_t begin = (first + page - 1) & ~(page - 1);
    const std::uintptr_t end = (first + part.p_memsz) & ~(page - 1);
    if (begin >= end) continue;
    // If it fails the pages stay: nothing is lost.
    static_cast<void>(madvise(reinterpret_cast<void*>(begin), end - begin,
                              MADV_DONTNEED));
  }
  return 0;
}

}  // namespace

void ReleaseLibraryPages() {
  if (!IsDebugged()) dl_iterate_phdr(&DropPages, nullptr);
}

void ReleaseUnusedMemory() {
  ReleaseLibraryPages();
  malloc_trim(0);
}

}  // namespace tjit::runtime

#include "runtime/platform/own_memory.h"

#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tjit::runtime {
namespace {

// Whether all pages of [begin, end) that are in memory are the file's, as
// /proc/self/pagemap tells (Linux, Documentation/admin-guide/mm/pagemap.rst).
// False where nothing tells.
bool AreOfFile(std::uintptr_t begin, std::uintptr_t end, std::uintptr_t page) {
  constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
  constexpr std::uint64_t kSwapped = std::uint64_t{1} << 62;
  constexpr std::uint64_t kOfFile = std::uint64_t{1} << 61;
  std::vector<std::uint64_t> entries((end - begin) / page);
  // Not a stream, whose buffers are no whole entries.
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pagemap < 0) return false;
  const std::size_t bytes = entries.size() * sizeof(entries[0]);
  const ssize_t got =
      pread(pagemap, entries.data(), bytes,
            static_cast<off_t>(begin / page * sizeof(entries[0])));
  close(pagemap);
  return got == static_cast<ssize_t>(bytes) &&
         std::all_of(entries.begin(), entries.end(), [](std::uint64_t entry) {
           return (entry & kSwapped) == 0 &&
                  ((entry & kPresent) == 0 || (entry & kOfFile) != 0);
         });
}

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
    if (begin >= end || !AreOfFile(begin, end, page)) continue;
    // If it fails the pages stay: nothing is lost.
    static_cast<void>(madvise(reinterpret_cast<void*>(begin), end - begin,
                              MADV_DONTNEED));
  }
  return 0;
}

}  // namespace

void ReleaseLibraryPages() { dl_iterate_phdr(&DropPages, nullptr); }

void ReleaseUnusedMemory() {
  ReleaseLibraryPages();
  malloc_trim(0);
}

}  // namespace tjit::runtime

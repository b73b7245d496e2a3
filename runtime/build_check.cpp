#include "runtime/build_check.h"

#include <elf.h>
#include <link.h>

#include <cstring>

#include "tjit_build_ids.h"

namespace tjit::runtime {
namespace {

struct Search {
  std::string_view name;
  std::string id;
};

// Reads the build-id note of one loaded object.
std::string BuildIdOf(const dl_phdr_info* info) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_NOTE) continue;
    const auto* p =
        reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
    const char* end = p + header.p_memsz;
    while (p + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, p, sizeof(note));
      const char* name = p + sizeof(note);
      const char* desc = name + ((note.n_namesz + 3) & ~3u);
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          std::memcmp(name, "GNU", 4) == 0) {
        static const char kHex[] = "0123456789abcdef";
        std::string id;
        for (unsigned k = 0; k < note.n_descsz; ++k) {
          const auto byte = static_cast<unsigned char>(desc[k]);
          id += kHex[byte >> 4];
          id += kHex[byte & 15];
        }
        return id;
      }
      p = desc + ((note.n_descsz + 3) & ~3u);
    }
  }
  return {};
}

int Visit(dl_phdr_info* info, std::size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  const std::string_view path = info->dlpi_name;
  if (path.size() < search->name.size() ||
      path.substr(path.size() - search->name.size()) != search->name) {
    return 0;
  }
  search->id = BuildIdOf(info);
  return 1;
}

}  // namespace

std::string LoadedBuildId(std::string_view name) {
  Search search{name, {}};
  dl_iterate_phdr(&Visit, &search);
  return search.id;
}

std::string CompareBuildIds(std::string_view library, std::string_view built,
                            std::string_view loaded) {
  if (built.empty() || loaded.empty() || built == loaded) return {};
  return std::string("inert: this process loads ") + std::string(library) +
         " with build-id " + std::string(loaded) +
         ", but libtjit was built for " + std::string(built) + " (libtorch " +
         TJIT_TORCH_VERSION +
         "). Rebuild tjit with CMAKE_PREFIX_PATH set to this libtorch.";
}

std::string WhyNotThisTorch() {
  const struct {
    const char* library;
    const char* built;
  } checks[] = {{"libtorch_cpu.so", TJIT_TORCH_CPU_BUILD_ID},
                {"libc10.so", TJIT_C10_BUILD_ID}};
  for (const auto& c : checks) {
    std::string why = CompareBuildIds(c.library, c.built,
                                      LoadedBuildId(std::string("/") +
                                                    c.library));
    if (!why.empty()) return why;
  }
  return {};
}

}  // namespace tjit::runtime

// The GNU build-id of a loaded object, as hex digits.
//
// Only libc: the preload shim uses it too, which must not load anything else.
// Tested by: tests/error/bad_setup_test.py, tests/acceptance/run_test.py
#pragma once

#include <elf.h>
#include <link.h>

#include <cstring>

namespace tjit::runtime {

struct BuildId {
  static constexpr unsigned kMaxBytes = 64;
  char hex[2 * kMaxBytes + 1] = "";  // "": the object has none
};

// Reads it from the notes of the object that dl_iterate_phdr() shows.
inline BuildId BuildIdOf(const dl_phdr_info* info) {
  BuildId id;
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
          note.n_descsz <= BuildId::kMaxBytes &&
          std::memcmp(name, "GNU", 4) == 0) {
        static const char kHex[] = "0123456789abcdef";
        for (unsigned k = 0; k < note.n_descsz; ++k) {
          const auto byte = static_cast<unsigned char>(desc[k]);
          id.hex[2 * k] = kHex[byte >> 4];
          id.hex[2 * k + 1] = kHex[byte & 15];
        }
        id.hex[2 * note.n_descsz] = '\0';
        return id;
      }
      p = desc + ((note.n_descsz + 3) & ~3u);
    }
  }
  return id;
}

}  // namespace tjit::runtime

#include "runtime/preload/rebind.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace tjit::preload {
namespace {

// The names, by their hash. No name is there twice.
class Names {
 public:
  static constexpr std::size_t kBuckets = 2048;
  static constexpr std::size_t kMost = kBuckets / 2;

  Names(const char* const* symbols, std::size_t count) : symbols_(symbols) {
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t at = HashOf(symbols[i]);
      while (entries_[at] != 0) at = (at + 1) % kBuckets;
      entries_[at] = static_cast<std::uint16_t>(i + 1);
    }
  }

  // The index of the name, or -1.
  int Find(const char* name) const {
    std::size_t at = HashOf(name);
    for (; entries_[at] != 0; at = (at + 1) % kBuckets) {
      const int index = entries_[at] - 1;
      if (strcmp(symbols_[index], name) == 0) return index;
    }
    return -1;
  }

 private:
  static std::size_t HashOf(const char* name) {
    std::uint32_t hash = 2166136261u;
    for (; *name != '\0'; ++name) {
      hash = (hash ^ static_cast<unsigned char>(*name)) * 16777619u;
    }
    return (hash ^ (hash >> 15)) % kBuckets;
  }

  const char* const* symbols_;
  std::uint16_t entries_[kBuckets] = {};
};

struct Relocations {
  const Elf64_Rela* first = nullptr;
  std::size_t bytes = 0;
};

// What the dynamic section of a loaded library says.
struct Tables {
  const Elf64_Sym* symbols = nullptr;
  const char* names = nullptr;
  Relocations calls, others;
};

// The loader has mostly made addresses of what the section has as offsets.
template <class T>
T AddressOf(const dl_phdr_info& info, Elf64_Addr value) {
  if (value < info.dlpi_addr) value += info.dlpi_addr;
  return reinterpret_cast<T>(value);
}

Tables TablesOf(const dl_phdr_info& info, const Elf64_Dyn* section) {
  Tables tables;
  for (const Elf64_Dyn* d = section; d->d_tag != DT_NULL; ++d) {
    const Elf64_Addr value = d->d_un.d_ptr;
    switch (d->d_tag) {
      case DT_SYMTAB:
        tables.symbols = AddressOf<const Elf64_Sym*>(info, value);
        break;
      case DT_STRTAB:
        tables.names = AddressOf<const char*>(info, value);
        break;
      case DT_JMPREL:
        tables.calls.first = AddressOf<const Elf64_Rela*>(info, value);
        break;
      case DT_PLTRELSZ:
        tables.calls.bytes = d->d_un.d_val;
        break;
      case DT_RELA:
        tables.others.first = AddressOf<const Elf64_Rela*>(info, value);
        break;
      case DT_RELASZ:
        tables.others.bytes = d->d_un.d_val;
        break;
      default:
        break;
    }
  }
  return tables;
}

// Memory that the loader has made read-only once it was bound.
struct ReadOnly {
  char* first = nullptr;
  std::size_t bytes = 0;
};

ReadOnly ReadOnlyOf(const dl_phdr_info& info, const Elf64_Phdr& header) {
  const auto page = static_cast<Elf64_Addr>(sysconf(_SC_PAGESIZE));
  const Elf64_Addr first = (info.dlpi_addr + header.p_vaddr) & ~(page - 1);
  const Elf64_Addr end =
      (info.dlpi_addr + header.p_vaddr + header.p_memsz) & ~(page - 1);
  return {reinterpret_cast<char*>(first), end > first ? end - first : 0};
}

struct Search {
  const Names* names;
  void* const* addresses;
  const void* own_base;  // of the shim
  bool writes;           // else it only makes memory writable
  int slots = 0;
  bool failed = false;
};

void BindSlot(Search* search, const dl_phdr_info& info, const Tables& tables,
              const Elf64_Rela& relocation) {
  const auto type = ELF64_R_TYPE(relocation.r_info);
  if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT &&
      type != R_X86_64_64) {
    return;
  }
  const Elf64_Sym& symbol = tables.symbols[ELF64_R_SYM(relocation.r_info)];
  const char* const name = tables.names + symbol.st_name;
  if (*name == '\0') return;
  const int index = search->names->Find(name);
  if (index < 0) return;
  ++search->slots;
  if (!search->writes) return;
  auto* const slot =
      reinterpret_cast<char**>(info.dlpi_addr + relocation.r_offset);
  char* address = static_cast<char*>(search->addresses[index]);
  if (type == R_X86_64_64) address += relocation.r_addend;
  __atomic_store_n(slot, address, __ATOMIC_RELEASE);
}

void BindAll(Search* search, const dl_phdr_info& info, const Tables& tables,
             const Relocations& relocations) {
  if (relocations.first == nullptr) return;
  const std::size_t count = relocations.bytes / sizeof(Elf64_Rela);
  for (std::size_t i = 0; i < count; ++i) {
    BindSlot(search, info, tables, relocations.first[i]);
  }
}

int Visit(dl_phdr_info* info, std::size_t /*size*/, void* data) {
  auto* const search = static_cast<Search*>(data);
  if (reinterpret_cast<const void*>(info->dlpi_addr) == search->own_base) {
    return 0;
  }
  const Elf64_Dyn* section = nullptr;
  ReadOnly read_only;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const Elf64_Phdr& header = info->dlpi_phdr[i];
    if (header.p_type == PT_DYNAMIC) {
      section =
          reinterpret_cast<const Elf64_Dyn*>(info->dlpi_addr + header.p_vaddr);
    }
    if (header.p_type == PT_GNU_RELRO) read_only = ReadOnlyOf(*info, header);
  }
  if (section == nullptr) return 0;
  const Tables tables = TablesOf(*info, section);
  if (tables.symbols == nullptr || tables.names == nullptr) return 0;
  const int before = search->slots;
  BindAll(search, *info, tables, tables.calls);
  BindAll(search, *info, tables, tables.others);
  if (search->slots == before || read_only.bytes == 0) return 0;
  // First it is made writable, and at last as it was.
  const int access = search->writes ? PROT_READ : PROT_READ | PROT_WRITE;
  const int result = mprotect(read_only.first, read_only.bytes, access);
  if (result != 0 && !search->writes) search->failed = true;
  return search->failed ? 1 : 0;
}

}  // namespace

int Rebind(const char* const* symbols, void* const* addresses,
           std::size_t count) {
  if (count > Names::kMost) return -1;
  Dl_info own;
  if (dladdr(reinterpret_cast<const void*>(&Rebind), &own) == 0) return -1;
  const Names names(symbols, count);
  Search search{&names, addresses, own.dli_fbase, /*writes=*/false};
  dl_iterate_phdr(&Visit, &search);
  if (search.failed) return -1;
  search.writes = true;
  search.slots = 0;
  dl_iterate_phdr(&Visit, &search);
  return search.slots;
}

}  // namespace tjit::preload

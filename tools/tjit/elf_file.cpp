#include "tools/tjit/elf_file.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <string_view>

namespace tjit::tools {
namespace {

// A file in memory while this lives; empty if it cannot be read.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    struct stat info;
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
      size_ = static_cast<std::size_t>(info.st_size);
      data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    }
    close(file);
  }
  ~MappedFile() {
    if (data_ != MAP_FAILED) munmap(data_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view bytes() const {
    if (data_ == MAP_FAILED) return {};
    return {static_cast<const char*>(data_), size_};
  }

 private:
  void* data_ = MAP_FAILED;
  std::size_t size_ = 0;
};

// The part of `bytes` from `begin`, at most `size` long; short where it ends.
std::string_view Part(std::string_view bytes, std::size_t begin,
                      std::size_t size) {
  return begin > bytes.size() ? std::string_view() : bytes.substr(begin, size);
}

template <typename T>
bool Get(std::string_view bytes, std::size_t at, T* value) {
  const std::string_view part = Part(bytes, at, sizeof(T));
  if (part.size() < sizeof(T)) return false;
  std::memcpy(value, part.data(), sizeof(T));
  return true;
}

std::string Hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

// The build-id among the notes of one segment; "" if it is not there.
std::string BuildIdAmong(std::string_view notes) {
  const auto padded = [](std::size_t n) { return (n + 3) & ~std::size_t{3}; };
  Elf64_Nhdr note;
  while (Get(notes, 0, &note)) {
    const std::size_t name = sizeof(note);
    const std::size_t content = name + padded(note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID &&
        Part(notes, name, note.n_namesz) == std::string_view("GNU", 4)) {
      return Hex(Part(notes, content, note.n_descsz));
    }
    notes = Part(notes, content + padded(note.n_descsz), notes.size());
  }
  return {};
}

}  // namespace

ElfFile ReadElf(const std::string& path) {
  const MappedFile file(path);
  const std::string_view bytes = file.bytes();
  ElfFile elf;
  Elf64_Ehdr header;
  if (!Get(bytes, 0, &header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_machine != EM_X86_64) {
    return elf;
  }
  elf.is_elf = true;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    if (!Get(bytes, header.e_phoff + std::size_t{i} * header.e_phentsize,
             &part)) {
      break;
    }
    const std::string_view content =
        Part(bytes, part.p_offset, part.p_filesz);
    if (part.p_type == PT_INTERP) {
      elf.interpreter = content.substr(0, content.find('\0'));
    } else if (part.p_type == PT_NOTE && elf.build_id.empty()) {
      elf.build_id = BuildIdAmong(content);
    }
  }
  return elf;
}

bool FileHas(const std::string& path, const std::string& text) {
  const MappedFile file(path);
  const std::string_view bytes = file.bytes();
  return memmem(bytes.data(), bytes.size(), text.data(), text.size()) !=
         nullptr;
}

}  // namespace tjit::tools

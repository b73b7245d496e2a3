// What an ELF file says about itself, without loading it.
// Tested by: tests/acceptance/doctor_test.py
#pragma once

#include <string>

namespace tjit::tools {

struct ElfFile {
  bool is_elf = false;      // 64 bits, of this machine
  std::string interpreter;  // the loader that it asks for; "": none
  std::string build_id;     // hex digits; "": none
};

// `path` need not be an ELF file, nor be there.
ElfFile ReadElf(const std::string& path);

// True if the bytes of `text` stand somewhere in the file.
bool FileHas(const std::string& path, const std::string& text);

}  // namespace tjit::tools

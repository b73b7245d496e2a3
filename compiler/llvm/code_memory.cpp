#include "compiler/llvm/code_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tjit::llvm_backend {

CodeMemory::~CodeMemory() {
  if (begin_ != nullptr) munmap(begin_, bytes_);
}

std::string CodeMemory::Reserve(std::size_t object_bytes, bool plant_failure) {
  // Sections are parts of the object; stubs and alignment come on top.
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  bytes_ = (2 * object_bytes + 2 * page) / page * page;
  if (plant_failure) bytes_ = std::size_t{1} << 60;
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::StrCat("no memory for ", bytes_,
                        " bytes of code: ", std::strerror(errno));
  }
  begin_ = static_cast<std::uint8_t*>(memory);
  return "";
}

std::string CodeMemory::Seal(bool plant_failure) {
  if (plant_failure) errno = EACCES;
  if (plant_failure || mprotect(begin_, bytes_, PROT_READ | PROT_EXEC) != 0) {
    return absl::StrCat("the system gives no executable memory: mprotect of ",
                        bytes_, " bytes: ", std::strerror(errno));
  }
  return "";
}

std::uint8_t* CodeMemory::allocateCodeSection(std::uintptr_t size,
                                              unsigned alignment, unsigned,
                                              llvm::StringRef) {
  const std::size_t align = alignment == 0 ? 16 : alignment;
  const std::size_t start = (used_ + align - 1) / align * align;
  if (start + size > bytes_) return nullptr;  // LLVM calls its error handler
  used_ = start + size;
  return begin_ + start;
}

std::uint8_t* CodeMemory::allocateDataSection(std::uintptr_t size,
                                              unsigned alignment, unsigned id,
                                              llvm::StringRef name, bool) {
  return allocateCodeSection(size, alignment, id, name);
}

llvm::JITSymbol CodeMemory::findSymbol(const std::string& name) {
  const auto found = symbols_.find(name);
  if (found == symbols_.end()) {
    missing_ = name;
    return nullptr;
  }
  return {reinterpret_cast<std::uintptr_t>(found->second),
          llvm::JITSymbolFlags::Exported};
}

}  // namespace tjit::llvm_backend

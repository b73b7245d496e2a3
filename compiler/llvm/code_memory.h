// Pages for the code and constants of one kernel.
//
// All sections go into one mapping, reserved before anything is placed, so
// that running out of memory is an error text and relative addresses always
// reach. Written while it is plain memory, then made executable and read-only.
// Symbols come from the caller's table alone, never from the process.
// Tested by: tests/compiler/llvm/llvm_errors_test.cpp
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "llvm/ExecutionEngine/RTDyldMemoryManager.h"

namespace tjit::llvm_backend {

using SymbolTable = std::map<std::string, void*, std::less<>>;

class CodeMemory : public llvm::RTDyldMemoryManager {
 public:
  explicit CodeMemory(const SymbolTable& symbols) : symbols_(symbols) {}
  ~CodeMemory() override;

  // Maps memory for an object of so many bytes. "" or why not.
  std::string Reserve(std::size_t object_bytes, bool plant_failure);
  // Makes it executable. "" or why not.
  std::string Seal(bool plant_failure);
  std::size_t bytes() const { return bytes_; }
  // A symbol that was asked for and is not in the table, or "".
  const std::string& missing() const { return missing_; }

  std::uint8_t* allocateCodeSection(std::uintptr_t size, unsigned alignment,
                                    unsigned id, llvm::StringRef name) override;
  std::uint8_t* allocateDataSection(std::uintptr_t size, unsigned alignment,
                                    unsigned id, llvm::StringRef name,
                                    bool is_read_only) override;
  bool finalizeMemory(std::string*) override { return false; }
  // Kernels neither throw nor call what throws.
  void registerEHFrames(std::uint8_t*, std::uint64_t, std::size_t) override {}
  void deregisterEHFrames() override {}
  llvm::JITSymbol findSymbol(const std::string& name) override;

 private:
  const SymbolTable& symbols_;
  std::uint8_t* begin_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t used_ = 0;
  std::string missing_;
};

}  // namespace tjit::llvm_backend

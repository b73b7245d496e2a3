// What gdb finds of kernels: their names and places, in the list of objects
// that its interface for compilers defines (__jit_debug_descriptor).
#include <dlfcn.h>
#include <elf.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/compiler/llvm/llvm_testing.h"

namespace tjit::ir {
namespace {

// As gdb's manual has it ("JIT Compilation Interface").
struct CodeEntry {
  CodeEntry *next, *previous;
  const char* object;
  std::uint64_t object_bytes;
};
struct Descriptor {
  std::uint32_t version, action;
  CodeEntry *relevant, *first;
};

template <class T>
T Read(const char* object, std::uint64_t offset) {
  T value;
  std::memcpy(&value, object + offset, sizeof value);
  return value;
}

using Functions = std::map<std::string, std::uint64_t>;  // by name: where

// A symbol counts from the start of its section, whose place is in memory.
void AddFunctions(const char* object, Functions* functions) {
  const auto header = Read<Elf64_Ehdr>(object, 0);
  ASSERT_EQ(std::memcmp(header.e_ident, ELFMAG, SELFMAG), 0);
  const auto section = [&](std::uint64_t i) {
    return Read<Elf64_Shdr>(object, header.e_shoff + i * header.e_shentsize);
  };
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr table = section(i);
    if (table.sh_type != SHT_SYMTAB) continue;
    const char* names = object + section(table.sh_link).sh_offset;
    for (std::uint64_t at = 0; at < table.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = Read<Elf64_Sym>(object, table.sh_offset + at);
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
      (*functions)[names + symbol.st_name] =
          section(symbol.st_shndx).sh_addr + symbol.st_value;
    }
  }
}

// Of all objects that are registered now. The descriptor is looked up by name,
// among what stays when the library is stripped.
Functions FunctionsThatGdbSees() {
  Functions functions;
  Api();
  void* library = dlopen(TJIT_LLVM_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
  const auto* descriptor = static_cast<const Descriptor*>(
      library == nullptr ? nullptr : dlsym(library, "__jit_debug_descriptor"));
  EXPECT_NE(descriptor, nullptr) << "gdb would not find it either";
  if (descriptor == nullptr) return functions;
  // Where gdb stops to look again.
  EXPECT_NE(dlsym(library, "__jit_debug_register_code"), nullptr);
  EXPECT_EQ(descriptor->version, 1u);
  for (const CodeEntry* e = descriptor->first; e != nullptr; e = e->next) {
    AddFunctions(e->object, &functions);
  }
  dlclose(library);
  return functions;
}

std::uint64_t PlaceOf(const TjitKernel& kernel, int loop) {
  return reinterpret_cast<std::uintptr_t>(kernel.loops[loop].run);
}

TEST(LlvmDebuggerTest, GdbSeesAKernelAsLongAsItIsThere) {
  constexpr const char kText[] = R"(func seen_by_gdb(n0) {
  external %0: f32[n0]
  %1 = add f32[n0] %0, %0, 1.0
  return %1
})";
  const std::string name = "tjit_seen_by_gdb";
  EXPECT_FALSE(FunctionsThatGdbSees().contains(name));
  {
    const CompiledKernel kernel{std::string(kText)};
    ASSERT_EQ(kernel.error(), "");
    const Functions functions = FunctionsThatGdbSees();
    ASSERT_TRUE(functions.contains(name));
    EXPECT_EQ(functions.at(name), PlaceOf(kernel.kernel(), 0));
  }
  EXPECT_FALSE(FunctionsThatGdbSees().contains(name));
}

// What comes of the cache on disk is placed in the same way.
TEST(LlvmDebuggerTest, GdbSeesEachLoop) {
  const CompiledKernel kernel{std::string(R"(func two_loops(n0, n1) {
  external %0: f32[n0]
  external %1: f32[n1]
  %2 = add f32[n0] %0, %0, 1.0
  %3 = neg f32[n1] %1
  return %2, %3
})")};
  ASSERT_EQ(kernel.error(), "");
  ASSERT_EQ(kernel.kernel().loop_count, 2);
  const Functions functions = FunctionsThatGdbSees();
  ASSERT_THAT(functions, testing::Contains(testing::Key("tjit_two_loops")));
  ASSERT_THAT(functions, testing::Contains(testing::Key("tjit_two_loops_1")));
  EXPECT_EQ(functions.at("tjit_two_loops"), PlaceOf(kernel.kernel(), 0));
  EXPECT_EQ(functions.at("tjit_two_loops_1"), PlaceOf(kernel.kernel(), 1));
}

}  // namespace
}  // namespace tjit::ir

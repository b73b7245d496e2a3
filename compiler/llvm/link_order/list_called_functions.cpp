// Lists the functions of libtjit_llvm.so that compiling calls, as a linker
// script that lays them side by side.
//
//   list_called_functions LIBRARY COPY TRAINING SCRIPT
//
// LLVM is 18 MB of machine code. A compilation calls a fifth of it, all over
// the library, and the kernel maps 16 pages where one is touched. Side by side
// the called functions take half of the memory, and of the time to map it.
//
// How: COPY is LIBRARY with a breakpoint (int3) at each function of .text. It
// is loaded and compiles the functions of TRAINING, for vector registers of all
// widths that this processor has. Each function that meets its breakpoint is
// listed, and gets its first byte back.
//
// The script is one that the linker's own is extended by (INSERT). Where
// anything fails it says so and the build goes on without one: the order of
// functions is worth no failed build.
//
// Thread: one. Tested by: tests/compiler/llvm/link_order_test.sh
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/abi/kernel_abi.h"

namespace tjit {
namespace {

constexpr std::uint8_t kBreakpoint = 0xCC;
constexpr unsigned kMostSeconds = 120;  // a build does not wait longer

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in || text.empty()) throw std::runtime_error("cannot read " + path);
  return text;
}

void Write(const std::string& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

// The functions of a library's .text, by address.
struct Functions {
  std::map<std::uint64_t, std::vector<std::string>> names;
  std::uint64_t text_begin = 0;
  std::uint64_t text_offset = 0;  // in the file
};

template <class T>
const T* At(const std::string& file, std::uint64_t offset,
            std::uint64_t count = 1) {
  if (offset > file.size() || count > (file.size() - offset) / sizeof(T)) {
    throw std::runtime_error("the library is cut off");
  }
  return reinterpret_cast<const T*>(file.data() + offset);
}

// THROWS runtime_error if it has no symbol table.
Functions FunctionsOf(const std::string& file) {
  const auto* header = At<Elf64_Ehdr>(file, 0);
  const auto* sections = At<Elf64_Shdr>(file, header->e_shoff, header->e_shnum);
  const auto name_of = [&](const Elf64_Shdr& s) -> std::string_view {
    return At<char>(file, sections[header->e_shstrndx].sh_offset + s.sh_name);
  };
  Functions out;
  int text = 0;
  for (int i = 0; i < header->e_shnum; ++i) {
    if (name_of(sections[i]) != ".text") continue;
    text = i;
    out.text_begin = sections[i].sh_addr;
    out.text_offset = sections[i].sh_offset;
  }
  if (text == 0) throw std::runtime_error("there is no .text");
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const std::uint64_t count = sections[i].sh_size / sizeof(Elf64_Sym);
    const auto* symbols = At<Elf64_Sym>(file, sections[i].sh_offset, count);
    const std::uint64_t strings = sections[sections[i].sh_link].sh_offset;
    for (std::uint64_t k = 0; k < count; ++k) {
      const Elf64_Sym& s = symbols[k];
      if (ELF64_ST_TYPE(s.st_info) != STT_FUNC || s.st_shndx != text) continue;
      out.names[s.st_value].emplace_back(At<char>(file, strings + s.st_name));
    }
  }
  if (out.names.empty()) throw std::runtime_error("there is no symbol table");
  return out;
}

// What the handler reads and writes.
const Functions* g_functions = nullptr;
const std::string* g_library = nullptr;  // LIBRARY's bytes
std::uint64_t g_base = 0;                // where COPY is loaded
std::set<std::uint64_t>* g_called = nullptr;

// A breakpoint of ours: the function gets its first byte back. It is met in
// LLVM's code, not in malloc or the loader, which may be called here then.
void OnBreakpoint(int /*signal*/, siginfo_t* /*info*/, void* context) {
  auto* const machine = &static_cast<ucontext_t*>(context)->uc_mcontext;
  auto* const at = reinterpret_cast<std::uint8_t*>(machine->gregs[REG_RIP] - 1);
  if (g_base == 0) {
    Dl_info library;
    if (dladdr(at, &library) == 0) std::abort();
    g_base = reinterpret_cast<std::uint64_t>(library.dli_fbase);
  }
  const std::uint64_t address = reinterpret_cast<std::uint64_t>(at) - g_base;
  if (!g_functions->names.contains(address)) std::abort();
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  auto* const page = reinterpret_cast<void*>(
      reinterpret_cast<std::uint64_t>(at) & ~(page_bytes - 1));
  if (mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) std::abort();
  *at =
      static_cast<std::uint8_t>((*g_library)[address - g_functions->text_begin +
                                             g_functions->text_offset]);
  if (mprotect(page, page_bytes, PROT_READ | PROT_EXEC) != 0) std::abort();
  g_called->insert(address);
  --machine->gregs[REG_RIP];
}

// Of what the training functions call, for vectors of so many bits; nothing
// runs them. Roots and sums of rows are code in the loop, as in a process where
// both were found to have eager's bits.
std::vector<TjitMath> Math(int bits) {
  void* const any = reinterpret_cast<void*>(&Contents);
  constexpr std::int64_t kLanesOfSum = 8;
  std::vector<TjitMath> math;
  for (const char* op : {"exp", "tanh", "sigmoid"}) {
    math.push_back({op, kTjitMathVmlF32, any, 0});
    math.push_back({op, kTjitMathVmlF64, any, 0});
  }
  math.push_back(
      {"sqrt", bits == 512 ? kTjitSqrtTwoStepsF32x16 : kTjitSqrtTwoStepsF32x8,
       any, 0});
  for (const char* op :
       {"sum", "mean", "norm_mean", "norm_rstd", "softmax", "norm"}) {
    const bool is_sum = std::string_view(op) == "sum";
    math.push_back({op, kTjitRowF32, any, is_sum ? kLanesOfSum : 0});
    math.push_back({op, kTjitColumnF32, any, 0});
    math.push_back({op, kTjitWholeF32, any, 0});
  }
  return math;
}

// Loads COPY and compiles `training` with it.
void Train(const std::string& copy, const std::string& training) {
  void* const library = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto api_of =
      reinterpret_cast<TjitLlvmApiFn>(dlsym(library, "tjit_llvm_api"));
  if (api_of == nullptr) throw std::runtime_error(dlerror());
  const TjitLlvmApi* const api = api_of();
  for (std::size_t at = training.find("func "); at != std::string::npos;) {
    const std::size_t next = training.find("func ", at + 1);
    const std::string function = training.substr(at, next - at);
    at = next;
    for (const int bits : {512, 256, 128}) {
      const std::vector<TjitMath> math = Math(bits);
      TjitLlvmOptions options{};
      options.abi = kTjitLlvmAbi;
      options.vector_bits = bits;
      options.math = math.data();
      options.math_count = static_cast<std::int32_t>(math.size());
      TjitKernel kernel{};
      std::array<char, 512> error{};
      if (api->compile(function.c_str(), &options, &kernel, error.data(),
                       error.size()) != 0) {
        throw std::runtime_error(std::string(error.data()) + " in\n" +
                                 function);
      }
      api->free(kernel.handle);
    }
  }
}

std::string Script(const Functions& functions,
                   const std::set<std::uint64_t>& called) {
  std::string script = "SECTIONS {\n  .text.called : {\n";
  for (const std::uint64_t address : called) {
    for (const std::string& name : functions.names.at(address)) {
      script += "    *(.text." + name + " .text.unlikely." + name +
                " .text.startup." + name + ")\n";
    }
  }
  return script + "  }\n} INSERT BEFORE .text;\n";
}

void List(char** arguments) {
  const std::string file = Contents(arguments[1]);
  const Functions functions = FunctionsOf(file);
  std::string copy = file;
  for (const auto& [address, names] : functions.names) {
    copy[address - functions.text_begin + functions.text_offset] =
        static_cast<char>(kBreakpoint);
  }
  Write(arguments[2], copy);
  std::set<std::uint64_t> called;
  g_functions = &functions;
  g_library = &file;
  g_called = &called;
  alarm(kMostSeconds);
  struct sigaction action{};
  action.sa_sigaction = &OnBreakpoint;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGTRAP, &action, nullptr);
  Train(arguments[2], Contents(arguments[3]));
  Write(arguments[4], Script(functions, called));
  std::printf("%zu of %zu functions of the code generator are called\n",
              called.size(), functions.names.size());
}

}  // namespace
}  // namespace tjit

int main(int count, char** arguments) {
  if (count != 5) {
    std::fprintf(stderr, "usage: %s LIBRARY COPY TRAINING SCRIPT\n",
                 arguments[0]);
    return 2;
  }
  int status = 0;
  try {
    tjit::List(arguments);
  } catch (const std::exception& e) {
    std::fprintf(stderr,
                 "The code generator's functions stay in the linker's order, "
                 "which takes 7 MB more: %s\n",
                 e.what());
    status = 1;
  }
  std::fflush(nullptr);
  _exit(status);  // the copy's destructors are of no use
}

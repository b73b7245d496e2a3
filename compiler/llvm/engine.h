// From a module of LLVM's IR to machine code in memory.
//
// How: the target machine emits an object file into a buffer (one per loop),
// RuntimeDyld places it. No pass of LLVM's optimiser runs: the generators emit
// what is to be executed, the code generator selects and places in registers.
// What LLVM treats as fatal is caught by its error handler and a long jump
// back, and so is a failed allocation: what the failed compile had allocated is
// lost (Note [Half made] in engine.cpp).
// Thread: Compile() by one thread at a time.
// Tested by: tests/compiler/llvm/llvm_errors_test.cpp
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/abi/kernel_abi.h"
#include "compiler/llvm/code_memory.h"
#include "compiler/llvm/loop_emitter.h"
#include "llvm/IR/Module.h"

namespace llvm {
class RuntimeDyld;
class TargetMachine;
}  // namespace llvm

namespace tjit::llvm_backend {

// The machine's widest vectors, restricted to `vector_bits` (0: not).
VectorTarget TargetFor(int vector_bits);

class LoadedCode {
 public:
  LoadedCode() = default;
  LoadedCode(const LoadedCode&) = delete;
  ~LoadedCode();

  SymbolTable symbols;
  std::unique_ptr<CodeMemory> memory;
  std::unique_ptr<llvm::RuntimeDyld> linker;
  bool is_registered = false;  // with gdb

  // REQUIRES: the module defined it.
  TjitKernelFn Find(const std::string& name) const;
};

struct CompileRequest {
  std::uint32_t flags = 0;  // TjitLlvmFlag
  int vector_bits = 0;
};

// The target that code is generated for, with all its features.
const std::string& TargetText(int vector_bits);

// What flags ask for, of all modules of a kernel.
struct CodeDump {
  std::string ir, assembly;
};

// Compiles the module to an object. "" or what is wrong; *dump gets more.
std::string Compile(llvm::Module* module, const CompileRequest& request,
                    std::string* object, CodeDump* dump);

// Places an object, whose functions are called `names`; code->symbols has what
// it calls. "" or what is wrong.
std::string Load(const std::string& object, const CompileRequest& request,
                 const std::vector<std::string>& names, LoadedCode* code);

// Runs `work`; a fatal error of LLVM meanwhile is its result.
std::string CatchFatal(const std::function<std::string()>& work);

}  // namespace tjit::llvm_backend

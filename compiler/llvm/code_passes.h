// The passes that make an object of a module.
//
// Note [Passes that find nothing]. LLVM's code generator for x86 has some 120
// passes, most of them for what no loop of ours has: exceptions, atomics,
// thread storage, tiles, mitigations, debug info. Each asks for analyses, and
// costs what it costs to look. So those are left out, by name; objects are the
// same with and without them.
//
// Tested by: tests/compiler/llvm_passes_test.cpp
#pragma once

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

namespace tjit::llvm_backend {

// False if LLVM emits no objects for this machine. takes_all: none is left out.
bool AddCodePasses(llvm::TargetMachine* machine, bool takes_all,
                   llvm::raw_pwrite_stream* to,
                   llvm::legacy::PassManager* passes);

}  // namespace tjit::llvm_backend

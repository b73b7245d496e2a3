// What LLVM 19 to 22 spell in different ways.
//
// llvm-config's versions that cmake takes stand in CMakeLists.txt, those that
// were tried in docs/compatibility.md.
#pragma once

#include <string>

#include "llvm/Config/llvm-config.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

namespace tjit::llvm_backend {

// The machine that has passes for code.
#if LLVM_VERSION_MAJOR >= 20
using CodeMachine = llvm::TargetMachine;
#else
using CodeMachine = llvm::LLVMTargetMachine;
#endif

// How a target is named to LLVM: "x86_64-pc-linux-gnu".
#if LLVM_VERSION_MAJOR >= 21
using TargetName = llvm::Triple;
inline TargetName NameOf(const llvm::Triple& triple) { return triple; }
#else
using TargetName = std::string;
inline TargetName NameOf(const llvm::Triple& triple) { return triple.str(); }
#endif

}  // namespace tjit::llvm_backend

// The passes that make an object of a module.
//
// Note [Passes that find nothing]. LLVM's code generator for x86 has some 120
// passes, most of them for what no loop of ours has: exceptions, atomics,
// thread storage, tiles, mitigations, debug info. Each asks for analyses, and
// costs what it costs to look. So those are left out, by name; objects are the
// same with and without them. With all of them a small kernel takes 5.1 % more
// instructions and 6 to 9 % more time to compile, spread over nearly all of the
// list. The passes of x86 itself have no public ID, so that names are the one
// handle on all of them.
//
// Note [Passes that are not worth it]. Some find something: what a loop
// computes in each iteration again, what it computes twice, copies, better
// forms of some instructions. They take a tenth of the time, and what is
// executed often is one block, which the selection of instructions sees as a
// whole: kernels are as fast without. What a block may not compute again is
// computed in front of it by who emits it (Row::splats). The selection does
// addresses and branches one by one (FastISel) and asks for the whole block
// only where it must, and registers are given by weight, without the cuts that
// programs with many paths need (engine.cpp): a third of the time of all.
//
// Tested by: tests/compiler/llvm/llvm_passes_test.cpp
#pragma once

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

namespace tjit::llvm_backend {

// False if LLVM emits no such file for this machine. takes_all: also those that
// find nothing.
bool AddCodePasses(llvm::TargetMachine* machine, bool takes_all,
                   llvm::CodeGenFileType kind, llvm::raw_pwrite_stream* to,
                   llvm::legacy::PassManager* passes);

}  // namespace tjit::llvm_backend

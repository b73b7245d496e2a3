// Memory that compiling took and nothing needs any more.
//
// The code generator is 27 MB of machine code, most of which one compilation
// maps, and it works in a malloc arena of the background thread, which keeps
// what it once had. Programs compile at their beginning and run for long.
#pragma once

namespace tjit::runtime {

// Gives back the pages of libtjit_llvm.so, which are read from the file where
// they are called again, and what is free in malloc's arenas, each under its
// lock: about a millisecond, more where hundreds of MB are free. (A debugger's
// breakpoints in that library go with the pages.)
// Thread: any. Tested by: tests/runtime/platform/own_memory_test.cpp
void ReleaseUnusedMemory();

}  // namespace tjit::runtime

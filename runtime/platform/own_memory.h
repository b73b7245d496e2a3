// Memory that compiling took and nothing needs any more.
//
// The code generator is 27 MB of machine code. One compilation reads a third of
// that, and the kernel maps 16 pages where one is read, which is nearly all.
// Pages of a library that are as they are in its file may be given back at any
// time: who reads them again gets them from the page cache, at about a
// microsecond for 16 pages.
//
// A debugger's breakpoints are written into these pages and would go with them,
// so none is given back while a debugger is attached. (Probes of the kernel,
// uprobes, do go.)
//
// Thread: any. Tested by: tests/runtime/platform/own_memory_test.cpp
#pragma once

namespace tjit::runtime {

// Gives back the pages of libtjit_llvm.so: about 0.1 ms, and half a millisecond
// more in the next kernel's compilation, which takes 5 ms.
void ReleaseGeneratorPages();

// Gives back the pages of libtjit.so, of whose 9 MB starting reads nearly all
// and a running program a third.
void ReleaseLibraryPages();

// Gives back what is free in malloc's arenas, too, each under its lock: about a
// millisecond, more where hundreds of MB are free. The generator works in an
// arena of the background thread, which keeps what it once had.
void ReleaseUnusedMemory();

}  // namespace tjit::runtime

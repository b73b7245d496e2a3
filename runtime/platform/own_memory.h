// Memory that starting and compiling took and nothing needs any more.
//
// Pages of a library that are as they are in its file may be given back at any
// time: who reads them again gets them from the page cache, at some ten
// microseconds for 16 pages. Starting reads most of libtjit.so, loading the
// relocations of libtjit_llvm.so, and compiling 14 of its 27 MB.
//
// A page of which the process has a copy of its own is not as in the file: it
// has a debugger's breakpoint, a probe of the kernel, or lies in other memory.
// Of a part of a library with such a page none is given back.
//
// Thread: any. Tested by: tests/runtime/platform/own_memory_test.cpp
#pragma once

namespace tjit::runtime {

// Gives back the pages of libtjit.so and libtjit_llvm.so: about 0.1 ms.
void ReleaseLibraryPages();

// Gives back what is free in malloc's arenas, too, each under its lock: about a
// millisecond, more where hundreds of MB are free. The generator works in an
// arena of the background thread, which keeps what it once had.
void ReleaseUnusedMemory();

}  // namespace tjit::runtime

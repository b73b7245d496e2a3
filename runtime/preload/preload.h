// libtjit_preload.so: what `tjit run` preloads into every process of a program.
//
// libtjit.so interposes functions of libtorch, which works only if it stands
// before libtorch in the search order; but it needs libtorch, so preloading it
// would drag libtorch into every process. The shim needs libc alone and
// exports the same functions. Each jumps through a slot:
//
//   undecided   to the next definition, looked up at the first call
//   loaded      to libtjit's definition, which calls the next one itself
//   inert       to the next definition for good
//
// It decides when libtorch_cpu is in the process and its constructors have
// run: in the shim's own constructor (the last before main) for a program that
// links libtorch, after the dlopen() that brought it in otherwise, and at the
// latest at the first call of an interposed function outside of a dlopen().
// Then it compares build-ids, and loads the libtjit.so that lies beside it. A
// program that loads the shim by itself may say when (tjit_shim_load()). Where
// libtorch was there before the shim, the calls of what is loaded are led to the
// shim (rebind.h).
//
// Invariants:
// (1) The next definition is never one of the shim's or of a libtjit that it
//     loaded: dlsym(RTLD_NEXT), and libtorch's own handle where libtorch was
//     loaded with RTLD_LOCAL, which RTLD_NEXT does not see.
// (2) dlopen() is libc's own, with the program as its caller, wherever the
//     caller makes a difference (a search path of its own).
// (3) errno and dlerror() are left as the program's own calls leave them.
// (4) No libstdc++, no thread-local storage, no allocation.
// Threading: any; the one that moves `state` on from undecided decides.
// Tested by: tests/acceptance/run_test.py, tests/python/package_test.py
#pragma once

#include <cstddef>

extern "C" {
// One per function of interposed.def, in that order.
extern void* tjit_shim_slots[];
// Where a call of the function `index` shall go. Fills its slot if decided.
void* tjit_shim_target(std::size_t index);
// Which function does dlopen(name, flags) for `caller`.
void* tjit_shim_dlopen_target(const char* name, int flags, void* caller);

// For a program that loads the shim by itself, with RTLD_GLOBAL, as the Python
// package does.
// Nothing is decided while the sum of the changes is above 0: constructors of
// libtorch may be running, and this dlopen() is not ours.
__attribute__((visibility("default"))) void tjit_shim_hold(int change);
// Decides, if libtorch is there. Null if libtjit is loaded and gets the calls;
// else why not, which stderr has as well, in memory that stays.
__attribute__((visibility("default"))) const char* tjit_shim_load();
}

// Interposition: libtjit exports functions of libtorch under their own mangled
// names. Preloaded, or before libtorch on the link line, it gets every call
// through the PLT, also those from inside libtorch_cpu; it does its part and
// calls the next definition.
//
// Where the order is wrong nothing is interposed and nothing breaks, but const
// reads go unseen (docs/limits.md): ActiveInterposers()
// in intercept/interposed_functions.h tells.
//
// Interposed functions may be called before our static constructors have run,
// and pass through while tjit is off.
// Tested by: tests/runtime/intercept/interpose_test.cpp
#pragma once

#include <atomic>
#include <cstdint>

#include "tjit/export.h"

namespace tjit::runtime {

// True if calls of `symbol`, those of libtorch's own included, come to libtjit.
bool IsActiveInterposer(const char* symbol);

// The next definition of `symbol` after ours, kept in `cache`. Loaded late by
// the preload shim too: RTLD_NEXT then searches our own scope, which begins
// with us and has libtorch, but not the shim (preload/preload.h).
// THROWS: c10::Error if there is none, which is also said once on stderr.
void* NextDefinition(const char* symbol, std::atomic<void*>& cache);

// libtorch's default dtype (a c10::ScalarType), kept up to date by the
// interposed setter: asking for it is a call, and every op needs it.
extern std::atomic<std::uint8_t> g_default_dtype;
// Looks it up.
void RecordDefaultDtype();

// at::in_parallel_region() itself, which is interposed.
bool InParallelRegion();

// The switches of at::Context that decide how kernels lay their results out
// (oneDNN, NNPACK), kept up to date in the same way.
extern std::atomic<std::uint64_t> g_global_flags;
void RecordGlobalFlags();

}  // namespace tjit::runtime

// Defines an interposed function. `symbol` is its mangled name, so that what
// we define and what we call next cannot differ. A member function takes its
// object first. Inside, TJIT_NEXT(symbol) is the next definition.
#define TJIT_INTERPOSED extern "C" TJIT_API
#define TJIT_NEXT(symbol)                                             \
  reinterpret_cast<decltype(&symbol)>([] {                            \
    static std::atomic<void*> cache{nullptr};                         \
    void* known = cache.load(std::memory_order_acquire);              \
    return known != nullptr                                           \
               ? known                                                \
               : ::tjit::runtime::NextDefinition(#symbol, cache);     \
  }())

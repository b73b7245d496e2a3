// The engine of TJIT_BACKEND=llvm: kernels of libtjit_llvm.so, run on the
// threads of libtorch.
// Tested by: tests/runtime/tier2/tier2_test.cpp
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "compiler/cache/object_cache.h"
#include "compiler/driver/kernel.h"

namespace tjit::runtime {

class Worker;

// The library is loaded at the first use, on the worker: a process in which
// nothing gets hot does not pay for it. Where it cannot be had the engine says
// so once and refuses everything. `name` begins with "llvm" and tells engines
// with other functions apart, as kernels are kept by it. `functions` and
// `cache` outlive the engine; `flags`: TjitLlvmFlag, for all kernels; *cache is
// where code is kept, null: nowhere.
std::unique_ptr<Engine> MakeLlvmEngine(
    const char* name, MathFunctions* functions, std::uint32_t flags,
    const std::atomic<cache::ObjectCache*>* cache);

// Loads the library and compiles a smallest kernel, for what only the first one
// pays: half of its time and more. On the worker; false if it could not.
bool PrepareLlvm();
// Once a segment is half way to being compiled: has the worker do that, once in
// the process, if `engine` is of LLVM. So LLVM is loaded and has made its tables
// by the time it is asked.
void PrepareInBackground(const Engine* engine, Worker* worker);

// Runs of kernels by this thread that went backwards (loop_chain.h).
std::int64_t RunsTurnedBack();
// Loops of kernels that this thread shared with others.
std::int64_t LoopsShared();
// From now on all of several rows are, or as it is worth it.
void ShareAllLoops(bool all);
// Plants of tests: TjitLlvmFlags for kernels that are compiled from now on, and
// how much longer a run of one takes. Nothing without TJIT_PLANTED_DEFECTS.
void PlantInCompiler(std::uint32_t flags);
void SetCodeDelay(std::int64_t ns);

}  // namespace tjit::runtime

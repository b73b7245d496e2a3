// What libtorch_cpu exports beside its headers: SLEEF and MKL.
// Thread: any.
// Tested by: tests/runtime/bit_exact/math_probe_test.cpp
#pragma once

#include <dlfcn.h>

namespace tjit::runtime {

// Null if there is none. In libtorch_cpu, which may be loaded for itself alone.
inline void* LibtorchSymbol(const char* name) {
  static void* const library =
      dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  return dlsym(library == nullptr ? RTLD_DEFAULT : library, name);
}

}  // namespace tjit::runtime

// Failures of the code generator that tests plant by a flag of a compile.
// Without TJIT_PLANTED_DEFECTS there are none, and what stages them compiles
// away.
// Tested by: tests/runtime/tier2/tier2_failures_test.cpp, tests/release_test.sh
#pragma once

#include <cstdint>

#include "compiler/abi/kernel_abi.h"

namespace tjit::llvm_backend {

constexpr bool PlantsFailure([[maybe_unused]] std::uint32_t flags,
                             [[maybe_unused]] TjitLlvmFlag failure) {
#if defined(TJIT_PLANTED_DEFECTS)
  return (flags & failure) != 0;
#else
  return false;
#endif
}

}  // namespace tjit::llvm_backend

// Where the pointers and scalars of a loop are (Note [Shared loops] in
// shared_loop.h): looked up by one function that generated code calls, as that
// is less to compile than doing it in the code of every loop.
// Tested by: tests/compiler/llvm/llvm_share_test.cpp
#pragma once

#include <cstdint>

#include "compiler/abi/kernel_abi.h"

namespace tjit::llvm_backend {

inline constexpr char kBindLoopName[] = "tjit_bind_loop";

// *bound gets the pointers, then the bits of the scalars. numbers: the loop's.
void BindLoop(std::uint64_t* bound, char* const* memory,
              const std::int64_t* numbers, const TjitScalar* scalars,
              std::int64_t pointer_count, std::int64_t scalar_count);

}  // namespace tjit::llvm_backend

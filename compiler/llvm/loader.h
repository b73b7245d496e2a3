// Finds libtjit_llvm.so, which lies beside the library that this is linked
// into, and its functions. Includes nothing of LLVM.
//
// The library is loaded when first asked for, never from a constructor (LLVM's
// own may not have run), with its symbols to itself: libtorch may bring
// another LLVM. It stays.
// Thread: any.
// Tested by: tests/compiler/llvm/llvm_errors_test.cpp
#pragma once

#include <string>

#include "compiler/abi/kernel_abi.h"

namespace tjit {

// The library's functions, or null and in *error why there are none: it was
// built without LLVM, is not where it should be, or is another version's.
const TjitLlvmApi* LlvmApi(std::string* error);

// Not remembered; for tests.
const TjitLlvmApi* LoadLlvmApi(const std::string& path, std::string* error);

}  // namespace tjit

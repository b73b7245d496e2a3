// TJIT_ASSERT: what must hold is checked in builds for development.
//
//   TJIT_ASSERT(symbol < kMaxSymbols, "symbol ", symbol);
// prints the expression, its place and the text on stderr and ends the process
// if the condition is false. It stands where a declaration says REQUIRES: a
// false one is a mistake of tjit's own, never one of a user's.
//
// The presets debug, asan and tsan define TJIT_ASSERTS
// (cmake/TjitWarnings.cmake). In all others the condition must compile and is
// never evaluated. Thread: any. Tested by: tests/support/assert_test.cpp,
// assert_off_test.cpp
#pragma once

#include <string_view>

#ifdef TJIT_ASSERTS
#include "absl/strings/str_cat.h"
#define TJIT_ASSERT(condition, ...)               \
  ((condition)                                    \
       ? static_cast<void>(0)                     \
       : ::tjit::FailAssert(#condition, __FILE__, \
                            __LINE__ __VA_OPT__(, absl::StrCat(__VA_ARGS__))))
#else
#define TJIT_ASSERT(condition, ...) static_cast<void>(false && (condition))
#endif

namespace tjit {

[[noreturn]] void FailAssert(const char* condition, const char* file, int line,
                             std::string_view text = {});

}  // namespace tjit

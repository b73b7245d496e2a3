// A switch of tests: functions are compiled as they were lowered, no pass, one
// loop for each instruction. What differs then is the work of the passes.
//
// Without TJIT_PLANTED_DEFECTS it is constant. The library of the code
// generator has it as a flag of each compile (kernel_abi.h).
// Thread: any; set it while nothing is being compiled.
// Tested by: tests/differential/harness_test.cpp
#pragma once

#include <atomic>

namespace tjit {

#if defined(TJIT_PLANTED_DEFECTS)
inline std::atomic<bool> g_plain_code{false};
inline void SetPlainCode(bool is_plain) { g_plain_code.store(is_plain); }
inline bool PlainCode() { return g_plain_code.load(std::memory_order_relaxed); }
#else
inline void SetPlainCode(bool) {}
constexpr bool PlainCode() { return false; }
#endif

}  // namespace tjit

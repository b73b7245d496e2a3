// What MXCSR says of this thread's floating point arithmetic. Its lowest six
// bits are flags of what happened and never count.
// Thread: any.
// Tested by: tests/runtime/bit_exact/verdict_store_test.cpp,
// math_probe_test.cpp
#pragma once

#include <immintrin.h>

namespace tjit::runtime {

constexpr unsigned kMxcsrControl = 0xFFC0;

inline unsigned Arithmetic() { return _mm_getcsr() & kMxcsrControl; }

// Rounds to the nearest, flushes nothing and traps nothing: as a process
// begins.
constexpr unsigned kUsualArithmetic = 0x1F80;
inline bool HasUsualArithmetic() { return Arithmetic() == kUsualArithmetic; }

// Rounds to the nearest and flushes nothing; what it traps does not matter.
inline bool HasUsualRounding() {
  constexpr unsigned kRoundingAndFlushes = 0xE040;
  return (_mm_getcsr() & kRoundingAndFlushes) == 0;
}

}  // namespace tjit::runtime

// Complex numbers times and over real ones of the same width, in one pass.
//
// libtorch makes the real operand a complex tensor first, then computes with
// both parts, the quotient one number at a time. With an imaginary part of +0
// its formulas are:
//
//   a + bi over c:   ratio = 0 / c, s = 1 / c
//                    (a + b * ratio) * s, (b - a * ratio) * s
//            over 0: a / 0, b / 0
//   a + bi times c:  a * c - b * 0, b * c + a * 0
//
// Products with zero are exact, so that it makes no difference whether sums are
// fused with them. Two things are left to libtorch:
// (1) NaNs in an operand: which of two NaNs goes on depends on the registers of
//     its code.
// (2) Products that are rounded to zero: their sign goes on in a fused sum
//     (the last numbers, which fill no vector) and is lost in a rounded one.
// Infinities, zeros and small numbers are ours.
//
// Found by comparing bits with the kernels of AVX-512, AVX2 and SSE: equal for
// 180,000 tensors of 1 to 67 numbers each. 20,402 doubles over: 62 to 6 us,
// times: 13 to 7 (Zen 5, in cache).
//
// Thread: any; work is split as eager's.
// Tested by: tests/runtime/library_calls/complex_by_real_test.cpp
#pragma once

#include <cstdint>

namespace tjit::runtime {

enum class ByReal : std::uint8_t { kTimes, kOver };

// False: the processor has no vectors for it (AVX2).
bool HasComplexByReal();

// `numbers` and `out`: n complex ones, real and imaginary parts in turn; `by`:
// n real ones. False if numbers are left to libtorch; `out` holds anything
// then, but is as it was if it is `numbers`.
// REQUIRES: HasComplexByReal(); `out` is `numbers` or overlaps no operand.
bool RunComplexByReal(ByReal op, bool is_double, std::int64_t n,
                      const void* numbers, const void* by, void* out);

// How many calls computed since the process began. For tests.
std::int64_t CountComplexByReal();

}  // namespace tjit::runtime

// Row functions in vectors of 64 bytes. Compiled for AVX-512.
#include <immintrin.h>

#include "compiler/functions/row_functions/rows.h"
#include "compiler/functions/row_functions/sleef_lanes.h"

namespace tjit::rows {
namespace {

struct Avx512 : SleefLanes<64> {
  static __mmask16 First16(int n) {
    return static_cast<__mmask16>((1u << n) - 1);
  }
  static __mmask8 First8(int n) { return static_cast<__mmask8>((1u << n) - 1); }

  static F32 LoadPart(const float* x, int n) {
    return _mm512_maskz_loadu_ps(First16(n), x);
  }
  static F64 LoadPart(const double* x, int n) {
    return _mm512_maskz_loadu_pd(First8(n), x);
  }
  static void StorePart(float* x, int n, F32 v) {
    _mm512_mask_storeu_ps(x, First16(n), v);
  }
  static void StorePart(double* x, int n, F64 v) {
    _mm512_mask_storeu_pd(x, First8(n), v);
  }
  static F32 FirstOf(int n, F32 a, F32 b) {
    return _mm512_mask_blend_ps(First16(n), b, a);
  }
  static F64 FirstOf(int n, F64 a, F64 b) {
    return _mm512_mask_blend_pd(First8(n), b, a);
  }
  // One instruction; __builtin_convertvector() makes five.
  static F64 Widen(const float* x) {
    return _mm512_maskz_cvtps_pd(First8(8), _mm256_loadu_ps(x));
  }
  static F32 Fma(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }
  static F64 Fma(F64 a, F64 b, F64 c) { return _mm512_fmadd_pd(a, b, c); }
  using SleefLanes::Fma;
};

// exp of f32 in the midst of a loop, as SLEEF computes it, which libtorch has:
// no call, and none of the registers that one costs.
//
//   x = n ln 2 + s, ln 2 in two parts; e^s = 1 + (s + s^2 p(s)); times 2^n
//
// with a polynomial p of degree 5; every product that is added is one fma. 0
// below -104, infinite above 100. Measured equal to libtorch's for all 2^32
// numbers; those up to 0 are compared in a test, some of them in each process.
// Source: SLEEF, src/libm/sleefsimdsp.c, expf with 1.0 ULP: the numbers and the
// order of the roundings.
struct Avx512OwnExp : Avx512 {
  static F32 All(float x) { return _mm512_set1_ps(x); }

  // Masked, as GCC 12 warns of its own header otherwise.
  static F32 ExpUpToZero(F32 x) {
    const F32 n = _mm512_maskz_roundscale_ps(First16(16), x * 0x1.715476p0F,
                                             _MM_FROUND_CUR_DIRECTION);
    F32 s = Fma(n, All(-0x1.62e4p-1F), x);
    s = Fma(n, All(-0x1.7f7d1cp-20F), s);
    F32 p = All(0x1.a057b4p-13F);
    p = Fma(p, s, All(0x1.6d2d92p-10F));
    p = Fma(p, s, All(0x1.11114cp-7F));
    p = Fma(p, s, All(0x1.5554f4p-5F));
    p = Fma(p, s, All(0x1.555556p-3F));
    p = Fma(p, s, All(0.5F));
    const F32 e = All(1) + Fma(s * s, p, s);
    const __mmask16 is_above = _mm512_cmp_ps_mask(x, All(-104), _CMP_NLT_UQ);
    return _mm512_maskz_scalef_ps(is_above, e, n);
  }
  static F32 Exp(F32 x) {
    const __mmask16 is_infinite = _mm512_cmp_ps_mask(x, All(100), _CMP_GT_OQ);
    return _mm512_mask_mov_ps(ExpUpToZero(x), is_infinite,
                              All(__builtin_inff()));
  }
};

// Below -104 it is 0.
bool OwnExpHolds(std::uint32_t step) {
  constexpr std::uint32_t kFirst = 0x80000000, kLast = 0xc2d00010;
  for (std::uint32_t bits = kFirst; bits <= kLast;) {
    float x[16], own[16], sleefs[16];
    for (float& number : x) {
      __builtin_memcpy(&number, &bits, sizeof(number));
      bits += step;
    }
    const Avx512::F32 v = Load<Avx512, float>(x);
    Store<Avx512, float>(own, Avx512OwnExp::ExpUpToZero(v));
    Store<Avx512, float>(sleefs, Avx512::Exp(v));
    if (__builtin_memcmp(own, sleefs, sizeof(own)) != 0) return false;
  }
  return true;
}

// Sums are compiled for AVX2 in libtorch, with half as many lanes.
struct Avx512Halves : Avx512 {
  static constexpr bool kSumsHalves = true;
};

constexpr FunctionList kFunctions =
    AllRows<Avx512, Avx512OwnExp, Avx512Halves>();

}  // namespace
}  // namespace tjit::rows

namespace tjit {

constexpr RowTable kAvx512Rows = {"AVX512", rows::kFunctions.at,
                                  rows::kFunctions.count, &rows::g_math,
                                  rows::OwnExpHolds};

}  // namespace tjit

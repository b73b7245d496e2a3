// Row functions in vectors of 64 bytes. Compiled for AVX-512.
#include <immintrin.h>

#include "compiler/row_functions/rows.h"
#include "compiler/row_functions/sleef_lanes.h"

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

constexpr FunctionList kFunctions = AllRows<Avx512>();

}  // namespace
}  // namespace tjit::rows

namespace tjit {

constexpr RowTable kAvx512Rows = {"AVX512", rows::kFunctions.at,
                                  rows::kFunctions.count, &rows::g_math};

}  // namespace tjit

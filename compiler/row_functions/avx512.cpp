// Row functions in vectors of 64 bytes. Compiled for AVX-512.
#include <immintrin.h>

#include "compiler/row_functions/rows.h"

namespace tjit::rows {
namespace {

RowMath g_math{};

struct Avx512 {
  static constexpr int kBytes = 64;
  static constexpr bool kTree = true;
  static constexpr bool kHasFma = true;
  using F32 = VectorOf<float, kBytes>::Type;
  using F64 = VectorOf<double, kBytes>::Type;

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
  static F32 Fma(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }
  static F64 Fma(F64 a, F64 b, F64 c) { return _mm512_fmadd_pd(a, b, c); }
  static float Fma(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
  }
  static double Fma(double a, double b, double c) {
    return __builtin_fma(a, b, c);
  }
  static float Sqrt(float x) { return __builtin_sqrtf(x); }
  static double Sqrt(double x) { return __builtin_sqrt(x); }

  static F32 Exp(F32 v) { return Call(g_math.exp_f32, v); }
  static F64 Exp(F64 v) { return Call(g_math.exp_f64, v); }
  static F32 Log(F32 v) { return Call(g_math.log_f32, v); }
  static F64 Log(F64 v) { return Call(g_math.log_f64, v); }

 private:
  static F32 Call(void* function, F32 v) {
    return reinterpret_cast<F32 (*)(F32)>(function)(v);
  }
  static F64 Call(void* function, F64 v) {
    return reinterpret_cast<F64 (*)(F64)>(function)(v);
  }
};

constexpr FunctionList kFunctions = AllRows<Avx512>();

}  // namespace
}  // namespace tjit::rows

namespace tjit {

constexpr RowTable kAvx512Rows = {"AVX512", rows::kFunctions.at,
                                  rows::kFunctions.count, &rows::g_math};

}  // namespace tjit

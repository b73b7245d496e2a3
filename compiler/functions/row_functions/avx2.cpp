// Row functions in vectors of 32 bytes. Compiled for AVX2 with FMA.
#include <immintrin.h>

#include "compiler/functions/row_functions/rows.h"
#include "compiler/functions/row_functions/sleef_lanes.h"

namespace tjit::rows {
namespace {

// The masks of the first n lanes begin n before the middle.
constexpr std::int32_t kFirst8[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
constexpr std::int64_t kFirst4[8] = {-1, -1, -1, -1};

struct Avx2 : SleefLanes<32> {
  static __m256i First8(int n) {
    return _mm256_loadu_si256(
        reinterpret_cast<const __m256i*>(kFirst8 + 8 - n));
  }
  static __m256i First4(int n) {
    return _mm256_loadu_si256(
        reinterpret_cast<const __m256i*>(kFirst4 + 4 - n));
  }
  static F32 LoadPart(const float* x, int n) {
    return _mm256_maskload_ps(x, First8(n));
  }
  static F64 LoadPart(const double* x, int n) {
    return _mm256_maskload_pd(x, First4(n));
  }
  static void StorePart(float* x, int n, F32 v) {
    _mm256_maskstore_ps(x, First8(n), v);
  }
  static void StorePart(double* x, int n, F64 v) {
    _mm256_maskstore_pd(x, First4(n), v);
  }
  static F32 FirstOf(int n, F32 a, F32 b) {
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(First8(n)));
  }
  static F64 FirstOf(int n, F64 a, F64 b) {
    return _mm256_blendv_pd(b, a, _mm256_castsi256_pd(First4(n)));
  }
  static F64 Widen(const float* x) { return _mm256_cvtps_pd(_mm_loadu_ps(x)); }
  static F32 Fma(F32 a, F32 b, F32 c) { return _mm256_fmadd_ps(a, b, c); }
  static F64 Fma(F64 a, F64 b, F64 c) { return _mm256_fmadd_pd(a, b, c); }
  using SleefLanes::Fma;
};

constexpr FunctionList kFunctions = AllRows<Avx2>();

}  // namespace
}  // namespace tjit::rows

namespace tjit {

constexpr RowTable kAvx2Rows = {"AVX2", rows::kFunctions.at,
                                rows::kFunctions.count, &rows::g_math};

}  // namespace tjit

// Products in vectors of 64 bytes. Compiled for AVX-512.
#include "compiler/functions/products/lanes.h"
#include "compiler/functions/products/tiles.h"
#include "compiler/functions/products/transpose.h"

namespace tjit::products {
namespace {

struct F32 : Transpose8 {
  using T = float;
  using V = __m512;
  static constexpr int kWidth = 16, kRows = 12;

  static __mmask16 PartOf(int n) {
    return static_cast<__mmask16>((1u << n) - 1);
  }
  static V Zero() { return _mm512_setzero_ps(); }
  static V All(float x) { return _mm512_set1_ps(x); }
  static V Load(const float* p) { return _mm512_loadu_ps(p); }
  static V LoadPart(const float* p, __mmask16 part) {
    return _mm512_maskz_loadu_ps(part, p);
  }
  static void Store(float* p, V v) { _mm512_storeu_ps(p, v); }
  static void StorePart(float* p, __mmask16 part, V v) {
    _mm512_mask_storeu_ps(p, part, v);
  }
  static V Fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
  static V AllFours(const float* p) {
    return _mm512_broadcast_f32x4(_mm_loadu_ps(p));
  }
  static V SumOfFours(V v) {
    const V two = v + _mm512_shuffle_ps(v, v, 0xee);
    return two + _mm512_shuffle_ps(two, two, 0x55);
  }
};

struct F64 : Transpose4 {
  using T = double;
  using V = __m512d;
  static constexpr int kWidth = 8, kRows = 12;

  static __mmask8 PartOf(int n) { return static_cast<__mmask8>((1u << n) - 1); }
  static V Zero() { return _mm512_setzero_pd(); }
  static V All(double x) { return _mm512_set1_pd(x); }
  static V Load(const double* p) { return _mm512_loadu_pd(p); }
  static V LoadPart(const double* p, __mmask8 part) {
    return _mm512_maskz_loadu_pd(part, p);
  }
  static void Store(double* p, V v) { _mm512_storeu_pd(p, v); }
  static void StorePart(double* p, __mmask8 part, V v) {
    _mm512_mask_storeu_pd(p, part, v);
  }
  static V Fma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
};

}  // namespace
}  // namespace tjit::products

namespace tjit {

constexpr ProductTable kAvx512Products = {
    "AVX512", products::RunFloats<products::F32>,
    products::RunAnyProduct<products::F64>};

}  // namespace tjit

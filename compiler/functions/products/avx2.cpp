// Products in vectors of 32 bytes. Compiled for AVX2.
#include "compiler/functions/products/lanes.h"
#include "compiler/functions/products/tiles.h"
#include "compiler/functions/products/transpose.h"

namespace tjit::products {
namespace {

// The first n of 8 numbers are -1 from 8 - n on.
alignas(32) constexpr std::int32_t kFirstOf8[16] = {
    -1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
alignas(32) constexpr std::int64_t kFirstOf4[8] = {-1, -1, -1, -1, 0, 0, 0, 0};

struct F32 : Transpose8 {
  using T = float;
  using V = __m256;
  static constexpr int kWidth = 8, kRows = 6;

  static __m256i PartOf(int n) {
    return _mm256_loadu_si256(
        reinterpret_cast<const __m256i*>(kFirstOf8 + 8 - n));
  }
  static V Zero() { return _mm256_setzero_ps(); }
  static V All(float x) { return _mm256_set1_ps(x); }
  static V Load(const float* p) { return _mm256_loadu_ps(p); }
  static V LoadPart(const float* p, __m256i part) {
    return _mm256_maskload_ps(p, part);
  }
  static void Store(float* p, V v) { _mm256_storeu_ps(p, v); }
  static void StorePart(float* p, __m256i part, V v) {
    _mm256_maskstore_ps(p, part, v);
  }
  static V Fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
  static V AllFours(const float* p) {
    return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(p));
  }
  static V SumOfFours(V v) {
    const V two = v + _mm256_shuffle_ps(v, v, 0xee);
    return two + _mm256_shuffle_ps(two, two, 0x55);
  }
};

struct F64 : Transpose4 {
  using T = double;
  using V = __m256d;
  static constexpr int kWidth = 4, kRows = 6;

  static __m256i PartOf(int n) {
    return _mm256_loadu_si256(
        reinterpret_cast<const __m256i*>(kFirstOf4 + 4 - n));
  }
  static V Zero() { return _mm256_setzero_pd(); }
  static V All(double x) { return _mm256_set1_pd(x); }
  static V Load(const double* p) { return _mm256_loadu_pd(p); }
  static V LoadPart(const double* p, __m256i part) {
    return _mm256_maskload_pd(p, part);
  }
  static void Store(double* p, V v) { _mm256_storeu_pd(p, v); }
  static void StorePart(double* p, __m256i part, V v) {
    _mm256_maskstore_pd(p, part, v);
  }
  static V Fma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
};

}  // namespace
}  // namespace tjit::products

namespace tjit {

constexpr ProductTable kAvx2Products = {"AVX2",
                                        products::RunFloats<products::F32>,
                                        products::RunAnyProduct<products::F64>};

}  // namespace tjit

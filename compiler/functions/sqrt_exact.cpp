#include "compiler/functions/sqrt_exact.h"

#include <immintrin.h>

#include <algorithm>

namespace tjit::runtime {
namespace {

#define TJIT_AVX512 __attribute__((target("avx512f"), always_inline)) inline

TJIT_AVX512 __m512 Root(__m512 x) {
  const __mmask16 is_small =
      _mm512_cmp_ps_mask(x, _mm512_set1_ps(0x1p-80F), _CMP_LT_OQ);
  const __mmask16 is_itself =
      _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_EQ_OQ) |
      _mm512_cmp_ps_mask(x, _mm512_set1_ps(__builtin_inff()), _CMP_EQ_OQ);
  const __m512 a = _mm512_mask_mul_ps(x, is_small, x, _mm512_set1_ps(0x1p64F));
  const __m512 half = _mm512_set1_ps(0.5F);
  const __m512 y = _mm512_maskz_rsqrt14_ps(0xffff, a);
  const __m512 g = _mm512_mul_ps(a, y);
  const __m512 h = _mm512_mul_ps(y, half);
  __m512 root = _mm512_fmadd_ps(_mm512_fnmadd_ps(g, g, a), h, g);
  const __m512 down = _mm512_mul_ps(root, _mm512_set1_ps(0x1p-32F));
  root = _mm512_mask_blend_ps(is_small, root, _mm512_abs_ps(down));
  return _mm512_mask_blend_ps(is_itself, root, x);
}

TJIT_AVX512 __m512d Root(__m512d x) {
  const __mmask8 is_small =
      _mm512_cmp_pd_mask(x, _mm512_set1_pd(0x1p-700), _CMP_LT_OQ);
  const __mmask8 is_itself =
      _mm512_cmp_pd_mask(x, _mm512_setzero_pd(), _CMP_EQ_OQ) |
      _mm512_cmp_pd_mask(x, _mm512_set1_pd(__builtin_inf()), _CMP_EQ_OQ);
  const __m512d a = _mm512_mask_mul_pd(x, is_small, x, _mm512_set1_pd(0x1p512));
  const __m512d half = _mm512_set1_pd(0.5);
  const __m512d y = _mm512_maskz_rsqrt14_pd(0xff, a);
  __m512d g = _mm512_mul_pd(a, y);
  __m512d h = _mm512_mul_pd(y, half);
  const __m512d r = _mm512_fnmadd_pd(g, h, half);
  g = _mm512_fmadd_pd(g, r, g);
  h = _mm512_fmadd_pd(h, r, h);
  __m512d root = _mm512_fmadd_pd(_mm512_fnmadd_pd(g, g, a), h, g);
  const __m512d down = _mm512_mul_pd(root, _mm512_set1_pd(0x1p-256));
  root = _mm512_mask_blend_pd(is_small, root, _mm512_abs_pd(down));
  return _mm512_mask_blend_pd(is_itself, root, x);
}

#undef TJIT_AVX512

__attribute__((target("avx"), always_inline)) inline __m256 RootInTwoSteps(
    __m256 x) {
  const __m256 half = _mm256_set1_ps(0.5F);
  const __m256 y = _mm256_rsqrt_ps(x);
  __m256 g = _mm256_mul_ps(x, y);
  __m256 h = _mm256_mul_ps(y, half);
  const __m256 r = _mm256_sub_ps(half, _mm256_mul_ps(g, h));
  g = _mm256_add_ps(g, _mm256_mul_ps(g, r));
  h = _mm256_add_ps(h, _mm256_mul_ps(h, r));
  const __m256 rest = _mm256_sub_ps(x, _mm256_mul_ps(g, g));
  const __m256 root = _mm256_add_ps(g, _mm256_mul_ps(rest, h));
  const __m256 is_usual = _mm256_and_ps(
      _mm256_cmp_ps(x, _mm256_set1_ps(0x1p-126F), _CMP_GE_OQ),
      _mm256_cmp_ps(x, _mm256_set1_ps(0x1.ffep+127F), _CMP_LE_OQ));
  const __m256 is_negative = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ);
  const __m256 sign = _mm256_and_ps(is_negative, _mm256_set1_ps(-0.0F));
  const __m256 exact = _mm256_andnot_ps(sign, _mm256_sqrt_ps(x));
  return _mm256_blendv_ps(exact, root, is_usual);
}

}  // namespace

__attribute__((target("avx512f"))) void SqrtStepF32(int n, const float* x,
                                                    float* out, std::int64_t) {
  for (int i = 0; i < n; i += 16) {
    const auto mask =
        static_cast<__mmask16>(n - i < 16 ? (1U << (n - i)) - 1 : 0xffff);
    _mm512_mask_storeu_ps(out + i, mask,
                          Root(_mm512_maskz_loadu_ps(mask, x + i)));
  }
}

__attribute__((target("avx512f"))) void SqrtStepF64(int n, const double* x,
                                                    double* out, std::int64_t) {
  for (int i = 0; i < n; i += 8) {
    const auto mask =
        static_cast<__mmask8>(n - i < 8 ? (1U << (n - i)) - 1 : 0xff);
    _mm512_mask_storeu_pd(out + i, mask,
                          Root(_mm512_maskz_loadu_pd(mask, x + i)));
  }
}

__attribute__((target("avx"))) void SqrtTwoStepsF32(int n, const float* x,
                                                    float* out, std::int64_t) {
  constexpr int kLanes = 8;
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    _mm256_storeu_ps(out + i, RootInTwoSteps(_mm256_loadu_ps(x + i)));
  }
  float rest[kLanes] = {};
  std::copy(x + i, x + n, rest);
  _mm256_storeu_ps(rest, RootInTwoSteps(_mm256_loadu_ps(rest)));
  std::copy(rest, rest + (n - i), out + i);
}

}  // namespace tjit::runtime

#include "runtime/sqrt_step.h"

#include <immintrin.h>

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

}  // namespace tjit::runtime

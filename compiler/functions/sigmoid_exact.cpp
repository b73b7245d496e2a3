#include "compiler/functions/sigmoid_exact.h"

#include <immintrin.h>

#include <cstddef>
#include <iterator>

namespace tjit {
namespace {

#define TJIT_AVX512 [[gnu::target("avx512f,fma"), gnu::always_inline]] inline

constexpr std::int64_t kLanes = 16;
// Masks, all lanes, as GCC warns of what its header does without.
constexpr __mmask16 kAll = 0xffff;

constexpr float kLog2E = 0x1.715476p0F;
constexpr float kLog2 = 0x1.62e4p-1F, kLog2Rest = 0x1.7f7d1cp-20F;
// Of r^5 and below, to 1/2.
constexpr float kPolynomial[] = {0x1.a057b4p-13F, 0x1.6d2d92p-10F,
                                 0x1.11114cp-7F,  0x1.5554f4p-5F,
                                 0x1.555556p-3F,  0.5F};
// Below, SLEEF has 0, and above 100 infinity, which is what 2^n makes of it.
constexpr float kLeast = -104, kMost = 100;

TJIT_AVX512 __m512 Exp(__m512 y) {
  const __m512 n = _mm512_maskz_roundscale_ps(
      kAll, _mm512_mul_ps(y, _mm512_set1_ps(kLog2E)), 0);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(kLog2), y);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(kLog2Rest), r);
  __m512 sum = _mm512_set1_ps(kPolynomial[0]);
  for (std::size_t i = 1; i < std::size(kPolynomial); ++i) {
    sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(kPolynomial[i]));
  }
  sum = _mm512_fmadd_ps(_mm512_mul_ps(r, r), sum, r);
  sum = _mm512_add_ps(_mm512_set1_ps(1), sum);
  const __mmask16 some =
      _mm512_cmp_ps_mask(y, _mm512_set1_ps(kLeast), _CMP_NLT_UQ);
  const __mmask16 much =
      _mm512_cmp_ps_mask(y, _mm512_set1_ps(kMost), _CMP_GT_OQ);
  const __m512 power = _mm512_maskz_scalef_ps(some, sum, n);
  return _mm512_mask_mov_ps(power, much, _mm512_set1_ps(__builtin_inff()));
}

TJIT_AVX512 void Step(__mmask16 lanes, const float* x, float* out) {
  const __m512 number = _mm512_maskz_loadu_ps(lanes, x);
  const __m512 one = _mm512_set1_ps(1);
  const __m512 power = Exp(_mm512_sub_ps(_mm512_setzero_ps(), number));
  _mm512_mask_storeu_ps(out, lanes,
                        _mm512_div_ps(one, _mm512_add_ps(one, power)));
}

}  // namespace

bool HasSigmoidExact() {
  return __builtin_cpu_supports("avx512f") != 0 &&
         __builtin_cpu_supports("fma") != 0;
}

[[gnu::target("avx512f,fma")]] void SigmoidExact(std::int64_t n, const float* x,
                                                 float* out) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Step(kAll, x + i, out + i);
  const auto rest = static_cast<__mmask16>((1U << (n - i)) - 1);
  if (i < n) Step(rest, x + i, out + i);
}

}  // namespace tjit

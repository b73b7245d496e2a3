// Compiled for AVX2, with CPU_CAPABILITY_AVX2 as libtorch's kernels are.
#include "runtime/bit_exact/normal_numbers.h"

#include <ATen/native/cpu/avx_mathfun.h>

namespace tjit::runtime {

void MakeNormal(float mean, float deviation, float* numbers,
                std::int64_t blocks) {
  const __m256 means = _mm256_set1_ps(mean);
  const __m256 deviations = _mm256_set1_ps(deviation);
  const __m256 full_turn =
      _mm256_set1_ps(static_cast<float>(6.283185307179586));
  for (std::int64_t i = 0; i < blocks; ++i, numbers += 16) {
    const __m256 above_zero =
        _mm256_sub_ps(_mm256_set1_ps(1), _mm256_loadu_ps(numbers));
    const __m256 radius = _mm256_sqrt_ps(
        _mm256_mul_ps(_mm256_set1_ps(-2), log256_ps(above_zero)));
    const __m256 angle = _mm256_mul_ps(full_turn, _mm256_loadu_ps(numbers + 8));
    __m256 sine, cosine;
    sincos256_ps(angle, &sine, &cosine);
    _mm256_storeu_ps(numbers, _mm256_fmadd_ps(_mm256_mul_ps(radius, cosine),
                                              deviations, means));
    _mm256_storeu_ps(numbers + 8, _mm256_fmadd_ps(_mm256_mul_ps(radius, sine),
                                                  deviations, means));
  }
}

}  // namespace tjit::runtime

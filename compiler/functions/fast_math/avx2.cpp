// The formulas in vectors of 32 bytes. Compiled for AVX2 with FMA.
#include <immintrin.h>

#include "compiler/functions/fast_math/formulas.h"

namespace tjit::fast_math {
namespace {

struct Avx2 {
  typedef float F __attribute__((vector_size(32)));
  typedef int I __attribute__((vector_size(32)));

  static F Fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  static F Round(F x) { return _mm256_round_ps(x, 8); }
  static F Max(F limit, F x) { return _mm256_max_ps(limit, x); }
  static F Min(F limit, F x) { return _mm256_min_ps(limit, x); }

  // In two steps, each a normal number or 0.
  static F Scale(F x, F n) {
    const I whole = reinterpret_cast<I>(_mm256_cvtps_epi32(n));
    const I half = whole >> 1;
    return x * Power(half) * Power(whole - half);
  }

 private:
  static F Power(I n) {
    const I exponent = n + 127;
    return reinterpret_cast<F>((exponent > 0 ? exponent : I{}) << 23);
  }
};

}  // namespace
}  // namespace tjit::fast_math

namespace tjit {

FastFormulas Avx2Formulas() { return fast_math::Table<fast_math::Avx2>(); }

}  // namespace tjit

// The formulas in vectors of 64 bytes. Compiled for AVX-512.
#include <immintrin.h>

#include "compiler/functions/fast_math/formulas.h"

namespace tjit::fast_math {
namespace {

struct Avx512 {
  typedef float F __attribute__((vector_size(64)));
  typedef int I __attribute__((vector_size(64)));

  static F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  static F Round(F x) { return _mm512_roundscale_ps(x, 8); }
  static F Max(F limit, F x) { return _mm512_max_ps(limit, x); }
  static F Min(F limit, F x) { return _mm512_min_ps(limit, x); }
  static F Scale(F x, F n) { return _mm512_scalef_ps(x, n); }
};

}  // namespace
}  // namespace tjit::fast_math

namespace tjit {

FastFormulas Avx512Formulas() { return fast_math::Table<fast_math::Avx512>(); }

}  // namespace tjit

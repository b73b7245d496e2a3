// Gelu by erf of f32, and of bf16 by way of it, as oneDNN computes them for
// processors with AVX-512 (and its bf16): erf by polynomials of degree 5 in
// |x|, one for each quarter of an octave of |x|.
//
// How: the number of the polynomial comes from the exponent and the first two
// bits of the fraction of |x|, the first one serving all up to
// 0.156; its six coefficients are looked up in registers. Two more stand
// for what is too large (erf is 1) and for NaN.
// Thread: any.
// Tested by: tests/runtime/bit_exact/position_dependent_test.cpp (all of
// gelu_exact.h)
// Source: oneDNN 3.12, src/cpu/x64/injectors: the numbers, and the order of
// the roundings. Measured equal to it for all 2^32 numbers.
#include <immintrin.h>

#include <cstddef>

#include "compiler/functions/gelu_exact.h"

namespace tjit {
namespace {

// Those of lookups come in two registers.
constexpr std::size_t kDegree = 5, kLanes = 16, kPolynomials = 2 * kLanes;
constexpr int kForLarge = 22, kForNaN = 23;  // the last ones

// Floats, by power of |x|, then by polynomial.
alignas(64) constexpr std::uint32_t kCoefficients[kDegree + 1][kPolynomials] = {
    {0x32827792, 0x3381cc0c, 0x34523d4a, 0x351ac44d, 0x35f36d88, 0x36ee8229,
     0x37b8a3bb, 0x3867a213, 0x3940033b, 0x3a2a5a1d, 0x3ae35863, 0x3b7828f2,
     0x3c08b14b, 0x3c515ed3, 0xbb503236, 0xbd8d8e5e, 0xbe8abcd9, 0xbf0c19a2,
     0xbeccb328, 0x3e176ced, 0x3f470d99, 0x3f7abb28, 0x3f800000, 0x00000000},
    {0x3f4c421f, 0x3f4c4207, 0x3f4c41cb, 0x3f4c413b, 0x3f4c3fad, 0x3f4c3a2f,
     0x3f4c2d40, 0x3f4c146a, 0x3f4bc341, 0x3f4ad08c, 0x3f48f8cf, 0x3f45fac7,
     0x3f404e07, 0x3f3b980f, 0x3f48dff3, 0x3f78b21b, 0x3fbb0704, 0x40019c32,
     0x3fe536d6, 0x3f81331e, 0x3e6c8684, 0x3c98f936, 0x00000000, 0x3f800000},
    {0x3735e4cf, 0x37f2ff89, 0x388c23be, 0x3917535c, 0x39ab2ab0, 0x3a60fadb,
     0x3af9b960, 0x3b6e5491, 0x3c0a4ec5, 0x3ca5aa8c, 0x3d2138d9, 0x3d8737d4,
     0x3ddfb660, 0x3e0f27ab, 0x3d94004b, 0xbe0efdeb, 0xbf1d96c3, 0xbf89db58,
     0xbf6d9897, 0xbef69fb8, 0xbdc4f8a8, 0xbbde6422, 0x00000000, 0x00000000},
    {0xbe084570, 0xbe08639b, 0xbe089837, 0xbe08f409, 0xbe09ab95, 0xbe0b66d0,
     0xbe0e400a, 0xbe124df8, 0xbe1bde02, 0xbe2f19c9, 0xbe4931bf, 0xbe685fbc,
     0xbe89c95f, 0xbe96cbca, 0xbe8044aa, 0xbe0550f2, 0x3dcfd6a1, 0x3e94c826,
     0x3e79345f, 0x3decec91, 0x3ca46568, 0x3aa1e00a, 0x00000000, 0x00000000},
    {0x39f097a3, 0x3a5845dc, 0x3ab1fa35, 0x3b0cefb8, 0x3b653ab6, 0x3bcae527,
     0x3c221712, 0x3c6c5840, 0x3cc0a703, 0x3d1dcc19, 0x3d63656d, 0x3d955907,
     0x3dbf9910, 0x3dd53f69, 0x3db7dcef, 0x3d639ebe, 0xba6ede48, 0xbd22be69,
     0xbd041cf1, 0xbc64f5ab, 0xbb097a32, 0xb8ebf380, 0x00000000, 0x00000000},
    {0x3c9b6050, 0x3c978d11, 0x3c92e850, 0x3c8d058b, 0x3c848454, 0x3c6cd623,
     0x3c4c824b, 0x3c2a7935, 0x3be0b390, 0x3b0651ac, 0xbb232f53, 0xbbd42fa0,
     0xbc2c5366, 0xbc492c9e, 0xbc2a7aa6, 0xbbd55d04, 0xba823a76, 0x3b102aa8,
     0x3ae25a7e, 0x3a31f792, 0x38b84375, 0x3689bb5a, 0x00000000, 0x00000000},
};

#define TJIT_AVX512 [[gnu::target("avx512f")]]

TJIT_AVX512 inline __m512 Gelu(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i sign =
      _mm512_and_epi32(bits, _mm512_set1_epi32(static_cast<int>(0x80000000U)));
  const __m512i positive = _mm512_xor_epi32(bits, sign);
  const __m512 size = _mm512_castsi512_ps(positive);
  // A quarter of an octave is 2^21; the first one ends at 0x3e200000.
  __m512i which = _mm512_srai_epi32(
      _mm512_sub_epi32(positive, _mm512_set1_epi32(0x3e000001)), 21);
  which = _mm512_max_epi32(which, _mm512_setzero_si512());
  which = _mm512_min_epi32(which, _mm512_set1_epi32(kForNaN));
  const __mmask16 is_large =
      _mm512_cmp_ps_mask(size, _mm512_set1_ps(0x1.62b9dcp2F), _CMP_GT_OS);
  which = _mm512_mask_mov_epi32(which, is_large, _mm512_set1_epi32(kForLarge));
  __m512 erf = _mm512_setzero_ps();
  for (std::size_t d = kDegree + 1; d-- > 0;) {
    const std::uint32_t* const all = kCoefficients[d];
    const __m512 coefficient = _mm512_castsi512_ps(_mm512_permutex2var_epi32(
        _mm512_load_si512(all), which, _mm512_load_si512(all + kLanes)));
    erf = d == kDegree ? coefficient : _mm512_fmadd_ps(erf, size, coefficient);
  }
  erf = _mm512_castsi512_ps(_mm512_xor_epi32(_mm512_castps_si512(erf), sign));
  const __m512 sum = _mm512_add_ps(erf, _mm512_set1_ps(1));
  return _mm512_mul_ps(_mm512_mul_ps(x, sum), _mm512_set1_ps(0.5F));
}

TJIT_AVX512 void Run(std::int64_t n, const float* x, float* out) {
  constexpr auto kStep = static_cast<std::int64_t>(kLanes);
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    _mm512_storeu_ps(out + i, Gelu(_mm512_loadu_ps(x + i)));
  }
  if (i == n) return;
  const auto mask = static_cast<__mmask16>((1U << (n - i)) - 1);
  _mm512_mask_storeu_ps(out + i, mask,
                        Gelu(_mm512_maskz_loadu_ps(mask, x + i)));
}

#define TJIT_AVX512BF16 [[gnu::target("avx512f,avx512bf16")]]

// The processor's own rounding, which makes 0 of what is less than a normal
// number.
TJIT_AVX512BF16 inline __m512 Rounded(__m512 x) {
  const __m512i bits =
      _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}

TJIT_AVX512BF16 void RunBF16(std::int64_t n, const float* x, float* out) {
  constexpr auto kStep = static_cast<std::int64_t>(kLanes);
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    _mm512_storeu_ps(out + i, Rounded(Gelu(_mm512_loadu_ps(x + i))));
  }
  if (i == n) return;
  const auto mask = static_cast<__mmask16>((1U << (n - i)) - 1);
  _mm512_mask_storeu_ps(out + i, mask,
                        Rounded(Gelu(_mm512_maskz_loadu_ps(mask, x + i))));
}

}  // namespace

TJIT_GELU_FUNCTION(GeluMinimaxF32) {
  Run(n, static_cast<const float*>(a), static_cast<float*>(out));
}

TJIT_GELU_FUNCTION(GeluMinimaxBF16) {
  RunBF16(n, static_cast<const float*>(a), static_cast<float*>(out));
}

bool HasGeluMinimax() { return __builtin_cpu_supports("avx512f") != 0; }
bool HasGeluMinimaxBF16() { return __builtin_cpu_supports("avx512bf16") != 0; }

}  // namespace tjit

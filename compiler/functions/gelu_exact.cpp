#include "compiler/functions/gelu_exact.h"

#include <immintrin.h>

#include <bit>

namespace tjit {
namespace {

// Inlined into loops for one instruction set each, which the compiler makes
// vectors of; without FMA they would be calls.
#define TJIT_INLINE [[gnu::always_inline]] inline

constexpr std::uint32_t kSign = 0x80000000;

TJIT_INLINE std::uint32_t BitsOf(float x) {
  return std::bit_cast<std::uint32_t>(x);
}
TJIT_INLINE float FromBits(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}
// Not as -x, which the compiler might move out of a product: where rounding is
// not to nearest that is another number.
TJIT_INLINE float Minus(float x) { return FromBits(BitsOf(x) ^ kSign); }
TJIT_INLINE float Fma(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}

constexpr float kSqrtHalf = 0x1.6a09e6p-1F;
constexpr float kOneOverSqrtPi = 0x1.20dd74p-1F;

// 2^whole * e^rest; 0 where that is less than the least normal number.
TJIT_INLINE float Exp(float x) {
  constexpr float kLeast = -0x1.5d58ap6F, kMost = 0x1.62e43p6F;
  const bool is_zero = x < kLeast;
  float y = x < kMost ? x : kMost;
  y = y > kLeast ? y : kLeast;
  const float whole = __builtin_floorf(y * 0x1.715476p0F + 0.5F);
  const float rest = Fma(-whole, 0x1.62e43p-1F, y);
  // Of 2^whole, which may be more than a float holds, the half.
  const std::uint32_t exponent =
      static_cast<std::uint32_t>(static_cast<std::int32_t>(whole - 1) + 127)
      << 23;
  float p = 0x1.0f9f9cp-7F;
  p = Fma(p, rest, 0x1.573a1ap-5F);
  p = Fma(p, rest, 0x1.555a8p-3F);
  p = Fma(p, rest, 0x1.fffdc6p-2F);
  p = Fma(p, rest, 0x1.fffff6p-1F);
  p = Fma(p, rest, 1);
  return p * FromBits(is_zero ? 0 : exponent) * 2;
}

// `exp`: e^(-x^2)
TJIT_INLINE float Erf(float x, float exp) {
  const float t = 1 / Fma(0.3275911F, FromBits(BitsOf(x) & ~kSign), 1);
  float p = 1.061405429F;
  p = Fma(p, t, -1.453152027F);
  p = Fma(p, t, 1.421413741F);
  p = Fma(p, t, -0.284496736F);
  p = Fma(p, t, 0.254829592F);
  return FromBits(BitsOf(Fma(Minus(exp) * t, p, 1)) ^ (BitsOf(x) & kSign));
}

TJIT_INLINE float Gelu(float x) {
  const float r = x * kSqrtHalf;
  const float half = x * 0.5F;
  return Fma(Erf(r, Exp(Minus(r * r))), half, half);
}

TJIT_INLINE float GeluBackward(float gradient, float x) {
  const float r = x * kSqrtHalf;
  const float exp = Exp(Minus(r * r));
  const float slope = r * kOneOverSqrtPi * exp + 0.5F;
  return Fma(Erf(r, exp), 0.5F, slope) * gradient;
}

// To the nearest bf16, as the processor's instruction if it has one: that
// makes 0 of what is less than a normal number. A NaN is a bf16 too: kernels
// round it no more.
TJIT_INLINE float Rounded(float x, bool to_normal) {
  const std::uint32_t bits = BitsOf(x);
  const std::uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  const bool is_tiny = to_normal && (bits & 0x7f800000) == 0;
  const std::uint32_t number = is_tiny ? bits & kSign : rounded & 0xffff0000;
  const std::uint32_t nan = (bits | 0x400000) & 0xffff0000;
  return FromBits(x != x ? nan : number);
}

TJIT_INLINE void RunForward(std::int64_t n, const float* x, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = Gelu(x[i]);
}
TJIT_INLINE void RunBackward(std::int64_t n, const float* gradient,
                             const float* x, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = GeluBackward(gradient[i], x[i]);
}
TJIT_INLINE void RunRounding(std::int64_t n, bool to_normal, float* x) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = Rounded(x[i], to_normal);
}

#define TJIT_AVX512 [[gnu::target("avx512f,avx512dq,avx512vl,fma")]]
#define TJIT_AVX2 [[gnu::target("avx2,fma")]]

TJIT_AVX512 void Forward512(std::int64_t n, const float* x, float* out) {
  RunForward(n, x, out);
}
TJIT_AVX2 void Forward256(std::int64_t n, const float* x, float* out) {
  RunForward(n, x, out);
}
TJIT_AVX512 void Backward512(std::int64_t n, const float* g, const float* x,
                             float* out) {
  RunBackward(n, g, x, out);
}
TJIT_AVX2 void Backward256(std::int64_t n, const float* g, const float* x,
                           float* out) {
  RunBackward(n, g, x, out);
}
TJIT_AVX512 void Round512(std::int64_t n, bool to_normal, float* x) {
  RunRounding(n, to_normal, x);
}
TJIT_AVX2 void Round256(std::int64_t n, bool to_normal, float* x) {
  RunRounding(n, to_normal, x);
}

// To the nearest f16, or as MXCSR says.
[[gnu::target("avx2,f16c")]] void RoundF16(std::int64_t n, float* x) {
  constexpr std::int64_t kLanes = 8;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m128i halves =
        _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_CUR_DIRECTION);
    _mm256_storeu_ps(x + i, _mm256_cvtph_ps(halves));
  }
  for (; i < n; ++i) {
    x[i] = _cvtsh_ss(_cvtss_sh(x[i], _MM_FROUND_CUR_DIRECTION));
  }
}

bool HasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512dq") != 0 &&
                          __builtin_cpu_supports("avx512vl") != 0;
  return has;
}

bool RoundsToNormal() {
  static const bool does = __builtin_cpu_supports("avx512bf16") != 0;
  return does;
}

}  // namespace

TJIT_GELU_FUNCTION(GeluF32) {
  const auto run = HasAvx512() ? Forward512 : Forward256;
  run(n, static_cast<const float*>(a), static_cast<float*>(out));
}

TJIT_GELU_FUNCTION(GeluBF16) {
  GeluF32(n, a, b, out, first, total, 0, 0, 0);
  const auto round = HasAvx512() ? Round512 : Round256;
  round(n, RoundsToNormal(), static_cast<float*>(out));
}

TJIT_GELU_FUNCTION(GeluBackwardF32) {
  const auto run = HasAvx512() ? Backward512 : Backward256;
  run(n, static_cast<const float*>(a), static_cast<const float*>(b),
      static_cast<float*>(out));
}

TJIT_GELU_FUNCTION(GeluBackwardBF16) {
  GeluBackwardF32(n, a, b, out, first, total, 0, 0, 0);
  const auto round = HasAvx512() ? Round512 : Round256;
  round(n, RoundsToNormal(), static_cast<float*>(out));
}

TJIT_GELU_FUNCTION(GeluBackwardF16) {
  GeluBackwardF32(n, a, b, out, first, total, 0, 0, 0);
  RoundF16(n, static_cast<float*>(out));
}

void RoundToBF16(std::int64_t n, float* x) {
  (HasAvx512() ? Round512 : Round256)(n, false, x);
}

bool HasGeluFormulas() {
  return __builtin_cpu_supports("avx2") != 0 &&
         __builtin_cpu_supports("f16c") != 0 &&
         __builtin_cpu_supports("fma") != 0;
}

}  // namespace tjit

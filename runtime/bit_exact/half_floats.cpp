#include "runtime/bit_exact/half_floats.h"

#include <c10/util/Half.h>
#include <immintrin.h>

#include <bit>

namespace tjit::runtime {
namespace {

bool HasVectors() {
  static const bool has = __builtin_cpu_supports("avx2") != 0 &&
                          __builtin_cpu_supports("f16c") != 0;
  return has;
}

// What a NaN lacks whose fraction was in the lower half alone.
std::uint16_t QuietBit(std::uint16_t bits) {
  return (bits & 0x7f) == 0 ? 0x40 : 0;
}

std::uint16_t ToHalf(HalfType type, float x) {
  if (type == HalfType::kF16) return c10::Half(x).x;
  const auto bits =
      static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
  return x != x ? bits | QuietBit(bits) : bits;
}
float FromHalf(HalfType type, std::uint16_t x) {
  return type == HalfType::kBF16
             ? std::bit_cast<float>(std::uint32_t{x} << 16)
             : static_cast<float>(c10::Half(x, c10::Half::from_bits()));
}

constexpr std::int64_t kLanes = 8;
#define TJIT_VECTORS [[gnu::target("avx2,f16c")]]

// Whole vectors; returns how many elements they have.
template <HalfType kType>
TJIT_VECTORS std::int64_t VectorsToHalves(const float* from, std::uint16_t* to,
                                          std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m256 x = _mm256_loadu_ps(from + i);
    __m128i halves;
    if constexpr (kType == HalfType::kF16) {
      halves = _mm256_cvtps_ph(x, 0);
    } else {
      const __m256i is_nan =
          _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
      const __m256i upper = _mm256_srli_epi32(_mm256_castps_si256(x), 16);
      const __m256i has_no_fraction =
          _mm256_cmpeq_epi32(_mm256_and_si256(upper, _mm256_set1_epi32(0x7f)),
                             _mm256_setzero_si256());
      const __m256i quiet = _mm256_and_si256(
          _mm256_and_si256(is_nan, has_no_fraction), _mm256_set1_epi32(0x40));
      const __m256i bits = _mm256_or_si256(upper, quiet);
      halves = _mm_packus_epi32(_mm256_castsi256_si128(bits),
                                _mm256_extracti128_si256(bits, 1));
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
  return i;
}

template <HalfType kType>
TJIT_VECTORS std::int64_t VectorsFromHalves(const std::uint16_t* from,
                                            float* to, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const __m128i halves =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    if constexpr (kType == HalfType::kF16) {
      _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
    } else {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                          _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
    }
  }
  return i;
}

#undef TJIT_VECTORS

}  // namespace

void ToHalves(HalfType type, const float* from, std::uint16_t* to,
              std::int64_t n) {
  std::int64_t i = 0;
  if (HasVectors()) {
    i = type == HalfType::kF16 ? VectorsToHalves<HalfType::kF16>(from, to, n)
                               : VectorsToHalves<HalfType::kBF16>(from, to, n);
  }
  for (; i < n; ++i) to[i] = ToHalf(type, from[i]);
}

void FromHalves(HalfType type, const std::uint16_t* from, float* to,
                std::int64_t n) {
  std::int64_t i = 0;
  if (HasVectors()) {
    i = type == HalfType::kF16
            ? VectorsFromHalves<HalfType::kF16>(from, to, n)
            : VectorsFromHalves<HalfType::kBF16>(from, to, n);
  }
  for (; i < n; ++i) to[i] = FromHalf(type, from[i]);
}

}  // namespace tjit::runtime

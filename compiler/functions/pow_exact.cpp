#include "compiler/functions/pow_exact.h"

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <utility>

namespace tjit {
namespace {

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kPart = 2048;  // numbers, before powf is called

// By the first five bits of the fraction of the power: where its residue, in
// units of the last place, is between {down, up} of the middle of two floats,
// powf may round otherwise. Measured for all numbers and exponents, and a
// little more.
constexpr std::size_t kParts = 32;
struct Near {
  alignas(64) float down[kParts], up[kParts];
};
constexpr float kMeasured[kParts][2] = {
    {-0.00022F, 0.00177F}, {0, 0.00679F},         {0, 0.01494F},
    {0, 0.02393F},         {0, 0.03085F},         {0, 0.03313F},
    {0, 0.03307F},         {-0.01364F, 0.02629F}, {-0.03875F, 0.01033F},
    {-0.06793F, 0},        {-0.08254F, 0},        {-0.08365F, 0},
    {-0.06867F, 0.06055F}, {-0.03188F, 0.09482F}, {0, 0.08293F},
    {0, 0.07941F},         {0, 0.06503F},         {-0.00894F, 0.04406F},
    {-0.01722F, 0.02212F}, {-0.02155F, 0.00905F}, {-0.02187F, 0.00130F},
    {-0.01998F, 0},        {-0.01582F, 0.00048F}, {-0.01117F, 0.00300F},
    {-0.00621F, 0.00556F}, {-0.00174F, 0.00661F}, {0, 0.00729F},
    {0, 0.00688F},         {0, 0.00636F},         {0, 0.00411F},
    {0, 0.00248F},         {-0.00041F, 0.00146F},
};
constexpr float kUlp = 0x1p-23F;  // of a power between 1 and 2
constexpr float kMore = 0x1p-10F;

constexpr Near kNear = [] {
  Near near = {};
  for (std::size_t i = 0; i < kParts; ++i) {
    near.down[i] = (0.5F + kMeasured[i][0] - kMore) * kUlp;
    near.up[i] = (-0.5F + kMeasured[i][1] + kMore) * kUlp;
  }
  return near;
}();

#define TJIT_AVX512 [[gnu::target("avx512f,fma"), gnu::always_inline]] inline

// The sum of the two, low being what is left of the rounding of high.
struct Pair {
  __m512 high, low;
};

TJIT_AVX512 Pair Square(__m512 x) {
  const __m512 high = _mm512_mul_ps(x, x);
  return {high, _mm512_fmsub_ps(x, x, high)};
}

TJIT_AVX512 Pair Square(Pair x) {
  const Pair square = Square(x.high);
  return {square.high,
          _mm512_fmadd_ps(_mm512_add_ps(x.high, x.high), x.low, square.low)};
}

TJIT_AVX512 Pair Times(Pair a, __m512 x) {
  const __m512 high = _mm512_mul_ps(a.high, x);
  return {high, _mm512_fmadd_ps(a.low, x, _mm512_fmsub_ps(a.high, x, high))};
}

TJIT_AVX512 Pair Reciprocal(Pair a) {
  const __m512 one = _mm512_set1_ps(1);
  const __m512 high = _mm512_div_ps(one, a.high);
  const __m512 rest =
      _mm512_fnmadd_ps(high, a.low, _mm512_fnmadd_ps(high, a.high, one));
  return {high, _mm512_mul_ps(high, rest)};
}

template <int kExponent>
TJIT_AVX512 Pair Power(__m512 x) {
  if constexpr (kExponent < 0) {
    return Reciprocal(Power<-kExponent>(x));
  } else if constexpr (kExponent == 2) {
    return Square(x);
  } else if constexpr (kExponent % 2 == 0) {
    return Square(Power<kExponent / 2>(x));
  } else {
    return Times(Power<kExponent - 1>(x), x);
  }
}

TJIT_AVX512 __m512 OfPart(const float* all, __m512i part) {
  return _mm512_permutex2var_ps(_mm512_load_ps(all), part,
                                _mm512_load_ps(all + kLanes));
}

// The lanes of powers that lie too near the middle. x^n = rounded + rest.
TJIT_AVX512 __mmask16 IsNear(__m512 rounded, __m512 rest) {
  const __m512i bits = _mm512_castps_si512(rounded);
  // What lies above a power of two only belongs to the numbers below it: there
  // the middle is nearer.
  const __m512i below = _mm512_sub_epi32(bits, _mm512_set1_epi32(1));
  const __m512 size = _mm512_castsi512_ps(
      _mm512_and_epi32(below, _mm512_set1_epi32(0x7f800000)));
  const __m512i part = _mm512_maskz_srli_epi32(0xffff, below, 18);
  const __m512 down = _mm512_mul_ps(size, OfPart(kNear.down, part));
  const __m512 up = _mm512_mul_ps(size, OfPart(kNear.up, part));
  return _mm512_cmp_ps_mask(rest, down, _CMP_GT_OQ) |
         _mm512_cmp_ps_mask(rest, up, _CMP_LT_OQ);
}

// Those of a size at which some low part is no normal number, or not finite:
// their exponents are larger than this, or below its negative.
constexpr int kMostExponent = 100;

TJIT_AVX512 __mmask16 IsExtreme(__m512 rounded) {
  constexpr int kLeast = (127 - kMostExponent) << 23;
  constexpr int kMost = (127 + kMostExponent) << 23;
  return _mm512_cmpgt_epu32_mask(
      _mm512_sub_epi32(_mm512_castps_si512(rounded), _mm512_set1_epi32(kLeast)),
      _mm512_set1_epi32(kMost - kLeast));
}

// Whether no power of these numbers, which are whole vectors, can be extreme.
template <int kExponent>
TJIT_AVX512 bool AreOrdinary(std::int64_t n, const float* x) {
  constexpr int kMost = (kMostExponent - 1) / std::max(kExponent, -kExponent);
  constexpr int kFrom = (127 - kMost) << 23, kTo = (127 + kMost) << 23;
  const __m512i from = _mm512_set1_epi32(kFrom);
  __m512i most = _mm512_setzero_si512();
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const __m512 positive = _mm512_abs_ps(_mm512_loadu_ps(x + i));
    most = _mm512_maskz_max_epu32(
        0xffff, most, _mm512_sub_epi32(_mm512_castps_si512(positive), from));
  }
  return _mm512_cmpgt_epu32_mask(most, _mm512_set1_epi32(kTo - kFrom)) == 0;
}

// Which numbers of a part are for powf, a bit each.
struct Marks {
  alignas(64) std::uint16_t of_vector[kPart / kLanes] = {};
};

// 16 numbers or less, which `lanes` says. Those for powf are stored as they
// are, and marked.
template <int kExponent, bool kAreOrdinary>
TJIT_AVX512 void Step(__mmask16 lanes, const float* x, std::int64_t place,
                      Marks* marks, float* out) {
  const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000U));
  const __m512 number = _mm512_maskz_loadu_ps(lanes, x + place);
  const __m512 positive = _mm512_abs_ps(number);
  const Pair power = Power<kExponent>(positive);
  const __m512 rounded = _mm512_add_ps(power.high, power.low);
  const __m512 rest =
      _mm512_sub_ps(power.low, _mm512_sub_ps(rounded, power.high));
  __mmask16 is_for_powf = lanes & IsNear(rounded, rest);
  if constexpr (!kAreOrdinary) is_for_powf |= lanes & IsExtreme(rounded);
  if constexpr (!kAreOrdinary && kExponent > 0) {  // 0 is
    is_for_powf =
        _mm512_mask_test_epi32_mask(is_for_powf, _mm512_castps_si512(positive),
                                    _mm512_castps_si512(positive));
  }
  __m512i bits = _mm512_castps_si512(rounded);
  if constexpr (kExponent % 2 != 0) {
    bits = _mm512_or_epi32(bits,
                           _mm512_and_epi32(_mm512_castps_si512(number), sign));
  }
  const __m512 kept =
      _mm512_mask_mov_ps(_mm512_castsi512_ps(bits), is_for_powf, number);
  _mm512_mask_storeu_ps(out + place, lanes, kept);
  marks->of_vector[place / kLanes] = is_for_powf;
}

__mmask16 FirstLanes(std::int64_t n) {
  return static_cast<__mmask16>((1U << std::min(n, kLanes)) - 1);
}

// The places of what is marked, in order; returns how many. Of each 64 numbers
// eight are written whatever there is, as a guess how many there are would fail
// half of the time, and a failed guess stops the loads of what comes next.
// Source: flatten_bits() of simdjson.
[[gnu::target("avx512f,bmi,popcnt")]] std::int64_t PlacesOf(
    const Marks& marks, std::int64_t n, std::int32_t* places) {
  constexpr std::int64_t kAtOnce = 8, kBits = 64;
  std::int64_t count = 0;
  for (std::int64_t base = 0; base < n; base += kBits) {
    std::uint64_t word = 0;
    std::memcpy(&word, &marks.of_vector[base / kLanes], sizeof(word));
    std::int32_t* const to = places + count;
    count += __builtin_popcountll(word);
#pragma GCC unroll 8
    for (int i = 0; i < kAtOnce; ++i) {
      to[i] = static_cast<std::int32_t>(
          base + static_cast<std::int64_t>(_tzcnt_u64(word)));
      word = _blsr_u64(word);
    }
    for (int i = kAtOnce; word != 0; ++i) [[unlikely]] {
      to[i] = static_cast<std::int32_t>(
          base + static_cast<std::int64_t>(_tzcnt_u64(word)));
      word = _blsr_u64(word);
    }
  }
  return count;
}

using Powf = __m512 (*)(__m512 x, __m512 y);

// Replaces the numbers at these places by their powers.
[[gnu::target("avx512f")]] void CallPowf(const std::int32_t* places,
                                         std::int64_t count, int exponent,
                                         void* powf, float* out) {
  const __m512 y = _mm512_set1_ps(static_cast<float>(exponent));
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const __mmask16 lanes = FirstLanes(count - i);
    const __m512i at = _mm512_maskz_loadu_epi32(lanes, places + i);
    const __m512 numbers = _mm512_mask_i32gather_ps(
        _mm512_set1_ps(1), lanes, at, out, sizeof(float));
    _mm512_mask_i32scatter_ps(out, lanes, at,
                              reinterpret_cast<Powf>(powf)(numbers, y),
                              sizeof(float));
  }
}

// n: kPart at most.
template <int kExponent>
[[gnu::target("avx512f,fma")]] std::int64_t Part(std::int64_t n, const float* x,
                                                 void* powf, float* out) {
  Marks marks;
  std::int64_t i = 0;
  if (n % kLanes == 0 && AreOrdinary<kExponent>(n, x)) {
    for (; i < n; i += kLanes) {
      Step<kExponent, true>(0xffff, x, i, &marks, out);
    }
  } else {
    for (; i + kLanes <= n; i += kLanes) {
      Step<kExponent, false>(0xffff, x, i, &marks, out);
    }
  }
  if (i < n) Step<kExponent, false>(FirstLanes(n - i), x, i, &marks, out);
  constexpr std::int64_t kMore = 64;  // that may be written
  alignas(64) std::int32_t places[kPart + kMore];
  const std::int64_t count = PlacesOf(marks, n, places);
  CallPowf(places, count, kExponent, powf, out);
  return count;
}

using PartFn = std::int64_t (*)(std::int64_t n, const float* x, void* powf,
                                float* out);

template <std::size_t... kIndex>
PartFn PartOf(int exponent, std::index_sequence<kIndex...>) {
  PartFn part = nullptr;
  ((part =
        exponent == kPowExponents[kIndex] ? Part<kPowExponents[kIndex]> : part),
   ...);
  return part;
}

}  // namespace

bool IsPowExponent(double exponent) {
  return std::find(std::begin(kPowExponents), std::end(kPowExponents),
                   exponent) != std::end(kPowExponents);
}

bool HasPowExact() {
  return __builtin_cpu_supports("avx512f") != 0 &&
         __builtin_cpu_supports("fma") != 0 &&
         __builtin_cpu_supports("bmi") != 0 &&
         __builtin_cpu_supports("popcnt") != 0;
}

std::int64_t PowExact(std::int64_t n, const float* x, int exponent, void* powf,
                      float* out) {
  const PartFn part =
      PartOf(exponent, std::make_index_sequence<std::size(kPowExponents)>());
  std::int64_t by_powf = 0;
  for (std::int64_t i = 0; i < n; i += kPart) {
    by_powf += part(std::min(kPart, n - i), x + i, powf, out + i);
  }
  return by_powf;
}

}  // namespace tjit

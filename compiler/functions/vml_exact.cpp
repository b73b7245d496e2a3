#include "compiler/functions/vml_exact.h"

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <iterator>

#include "compiler/functions/vml_tables.h"

namespace tjit {
namespace {

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kPart = 1024;  // numbers, before VML is called

constexpr float kTanhMost = 9.5F;  // tanh is 1 from 9.02 on

// log(2) / 128: the first part is short enough for exact products.
constexpr float kStep = 0x1.63p-8F, kStepRest = -0x1.bd0106p-20F;
constexpr float kSteps = 0x1.715476p7F;
// Beyond these VML does it in another way; the last one has the exponential 0.
constexpr float kMostExp = 87.3F, kZeroExp = -104;

// log(2), first 15 bits: products with exponents are exact.
constexpr float kLog2 = 0x1.62e4p-1F, kLog2Rest = 0x1.7f7d1cp-20F;
// (log(1 + r) - r) / r^2, from r^8 down to r^0.
constexpr float kLogTerms[] = {-0x1.08059p-3F, 0x1.1e66bap-3F,  -0x1.f3113cp-4F,
                               0x1.1ed718p-3F, -0x1.559dccp-3F, 0x1.99d028p-3F,
                               -0x1.fffefp-3F, 0x1.555506p-2F,  -0x1p-1F};

#define TJIT_AVX512 [[gnu::target("avx512f,fma"), gnu::always_inline]] inline

// A result before it is rounded, high + low, and how far from the middle of
// two floats it has to be for its rounding to be VML's.
struct Unrounded {
  __m512 high, low, near;
};

TJIT_AVX512 __m512 Look(const float* table, __m512i piece) {
  return _mm512_permutex2var_ps(_mm512_load_ps(table), piece,
                                _mm512_load_ps(table + kLanes));
}

// Masks, all lanes, as GCC warns of what its header does without.
constexpr __mmask16 kAll = 0xffff;

// NaN stays NaN.
TJIT_AVX512 Unrounded TanhOfPositive(__m512 positive) {
  const __m512 x =
      _mm512_maskz_min_ps(kAll, _mm512_set1_ps(kTanhMost), positive);
  const __m512 at_least =
      _mm512_maskz_max_ps(kAll, _mm512_set1_ps(kTanhLeast), x);
  const __m512i piece = _mm512_maskz_srli_epi32(
      kAll, _mm512_castps_si512(at_least), kTanhPieceBits);
  const __m512 h = _mm512_sub_ps(x, Look(kTanhTable.centre, piece));
  const __m512 value = Look(kTanhTable.value, piece);
  const __m512 slope = Look(kTanhTable.slope, piece);
  const __m512 step = _mm512_mul_ps(h, slope);
  const __m512 high = _mm512_add_ps(value, step);
  const __m512 of_sum = _mm512_sub_ps(step, _mm512_sub_ps(high, value));
  const __m512 of_step = _mm512_fmsub_ps(h, slope, step);
  __m512 rest = Look(kTanhTable.sixth, piece);
  rest = _mm512_fmadd_ps(rest, h, Look(kTanhTable.fifth, piece));
  rest = _mm512_fmadd_ps(rest, h, Look(kTanhTable.fourth, piece));
  rest = _mm512_fmadd_ps(rest, h, Look(kTanhTable.third, piece));
  rest = _mm512_fmadd_ps(rest, h, Look(kTanhTable.second, piece));
  const __m512 low = _mm512_fmadd_ps(_mm512_mul_ps(h, h), rest,
                                     _mm512_add_ps(of_sum, of_step));
  return {high, low, _mm512_mul_ps(high, Look(kTanhTable.near, piece))};
}

// Rounded numbers, and where VML's are the same.
struct Rounded {
  __m512 numbers;
  __mmask16 are_vmls;
};

TJIT_AVX512 Rounded Round(__mmask16 lanes, Unrounded x) {
  const __m512 up = _mm512_add_ps(x.high, _mm512_add_ps(x.low, x.near));
  const __m512 down = _mm512_add_ps(x.high, _mm512_sub_ps(x.low, x.near));
  return {up, _mm512_mask_cmp_ps_mask(lanes, up, down, _CMP_EQ_OQ)};
}

struct Tanh {
  static Rounded Of(__mmask16 lanes, __m512 x);
};

TJIT_AVX512 Rounded Tanh::Of(__mmask16 lanes, __m512 x) {
  const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000U));
  const Rounded positive = Round(lanes, TanhOfPositive(_mm512_abs_ps(x)));
  const __m512i bits =
      _mm512_or_epi32(_mm512_castps_si512(positive.numbers),
                      _mm512_and_epi32(_mm512_castps_si512(x), sign));
  return {_mm512_castsi512_ps(bits), positive.are_vmls};
}

TJIT_AVX512 __m512 LookFar(const float* table, __m512i place) {
  const __mmask16 bit5 = _mm512_test_epi32_mask(place, _mm512_set1_epi32(32));
  const __mmask16 bit6 = _mm512_test_epi32_mask(place, _mm512_set1_epi32(64));
  const __m512 first =
      _mm512_mask_blend_ps(bit5, Look(table, place), Look(table + 32, place));
  const __m512 second = _mm512_mask_blend_ps(bit5, Look(table + 64, place),
                                             Look(table + 96, place));
  return _mm512_mask_blend_ps(bit6, first, second);
}

// Of x = n / 128 * log(2) + r: 2^(n / 128) * (1 + r + r^2 / 2), with VML's
// roundings, so no product and sum is one fma where that is another number.
struct Exp {
  static constexpr auto kMostKey = std::bit_cast<std::uint32_t>(87.0F);
  static __m512i Key(__m512 x);
  static __m512 OfOrdinary(__m512 x);
  static Rounded Of(__mmask16 lanes, __m512 x);
};

TJIT_AVX512 __m512i Exp::Key(__m512 x) {
  return _mm512_castps_si512(_mm512_abs_ps(x));
}

TJIT_AVX512 __m512 Exp::OfOrdinary(__m512 x) {
  const __m512 magic = _mm512_set1_ps(0x1.8p23F);  // n in its last bits
  const __m512 shifted =
      _mm512_add_ps(_mm512_mul_ps(x, _mm512_set1_ps(kSteps)), magic);
  const __m512i place = _mm512_castps_si512(shifted);
  const __m512 n = _mm512_sub_ps(shifted, magic);
  const __m512 r = _mm512_sub_ps(_mm512_fnmadd_ps(n, _mm512_set1_ps(kStep), x),
                                 _mm512_mul_ps(n, _mm512_set1_ps(kStepRest)));
  const __m512 of_r =
      _mm512_fmadd_ps(_mm512_mul_ps(r, r), _mm512_set1_ps(0.5F), r);
  const __m512 root = LookFar(kRootTable.high, place);
  const __m512 low =
      _mm512_add_ps(LookFar(kRootTable.low, place), _mm512_mul_ps(root, of_r));
  const __m512 exponent = _mm512_mul_ps(n, _mm512_set1_ps(0x1p-7F));
  return _mm512_maskz_scalef_ps(kAll, _mm512_add_ps(root, low), exponent);
}

TJIT_AVX512 Rounded Exp::Of(__mmask16 lanes, __m512 x) {
  const __mmask16 some =
      _mm512_cmp_ps_mask(x, _mm512_set1_ps(kZeroExp), _CMP_NLT_UQ);
  const __mmask16 are_vmls = _mm512_mask_cmp_ps_mask(
      lanes, _mm512_abs_ps(x), _mm512_set1_ps(kMostExp), _CMP_LT_OQ);
  return {_mm512_maskz_mov_ps(some, OfOrdinary(x)),
          static_cast<__mmask16>(are_vmls | ~some)};
}

// Of x = 2^k * (1 + r), r from -1/3 to 1/3: k * log(2) + r + r^2 * (terms of
// r), with VML's roundings.
struct Log {
  static constexpr std::uint32_t kLeastBits = 0x00800000;  // normal numbers
  static constexpr std::uint32_t kMostKey = 0x7f7fffff - kLeastBits;
  static __m512i Key(__m512 x);
  static __m512 OfOrdinary(__m512 x);
  static Rounded Of(__mmask16 lanes, __m512 x);
};

TJIT_AVX512 __m512i Log::Key(__m512 x) {
  return _mm512_sub_epi32(_mm512_castps_si512(x),
                          _mm512_set1_epi32(kLeastBits));
}

TJIT_AVX512 __m512 Log::OfOrdinary(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i from_least =
      _mm512_sub_epi32(bits, _mm512_set1_epi32(0x3f2aaaab));  // 2/3
  const __m512i k = _mm512_maskz_srai_epi32(kAll, from_least, 23);
  const __m512i one_and_r =
      _mm512_sub_epi32(bits, _mm512_maskz_slli_epi32(kAll, k, 23));
  const __m512 r =
      _mm512_sub_ps(_mm512_castsi512_ps(one_and_r), _mm512_set1_ps(1));
  __m512 terms = _mm512_set1_ps(kLogTerms[0]);
  for (std::size_t i = 1; i < std::size(kLogTerms); ++i) {
    terms =
        _mm512_add_ps(_mm512_mul_ps(terms, r), _mm512_set1_ps(kLogTerms[i]));
  }
  const __m512 of_r =
      _mm512_add_ps(r, _mm512_mul_ps(r, _mm512_mul_ps(r, terms)));
  const __m512 exponent = _mm512_maskz_cvtepi32_ps(kAll, k);
  const __m512 low =
      _mm512_add_ps(of_r, _mm512_mul_ps(exponent, _mm512_set1_ps(kLog2Rest)));
  return _mm512_fmadd_ps(exponent, _mm512_set1_ps(kLog2), low);
}

TJIT_AVX512 Rounded Log::Of(__mmask16 lanes, __m512 x) {
  return {OfOrdinary(x), _mm512_mask_cmple_epu32_mask(
                             lanes, Key(x), _mm512_set1_epi32(kMostKey))};
}

// Numbers whose Key() is kMostKey or less are ordinary: VML is asked for none
// of them, so that nothing has to be noted of each.
template <class Function>
constexpr bool kHasOrdinary = requires { Function::kMostKey; };

// Of whole vectors, where all numbers are ordinary, out = Function(x). Returns
// whether they were: without, nothing is written.
template <class Function>
TJIT_AVX512 bool Ordinary(std::int64_t n, const float* x, float* out) {
  __m512i most = _mm512_setzero_si512();
  for (std::int64_t i = 0; i < n; i += kLanes) {
    most = _mm512_maskz_max_epu32(kAll, most,
                                  Function::Key(_mm512_loadu_ps(x + i)));
  }
  if (_mm512_cmpgt_epu32_mask(
          most, _mm512_set1_epi32(static_cast<int>(Function::kMostKey))) != 0) {
    return false;
  }
  for (std::int64_t i = 0; i < n; i += kLanes) {
    _mm512_storeu_ps(out + i, Function::OfOrdinary(_mm512_loadu_ps(x + i)));
  }
  return true;
}

// Numbers for VML, and which lanes they are of.
struct Gathered {
  alignas(64) float numbers[kPart + kLanes];
  __mmask16 lanes[kPart / kLanes];
  std::int64_t count = 0;
};

// 16 numbers or less, which `lanes` says.
template <class Function>
TJIT_AVX512 void Step(__mmask16 lanes, const float* x, std::int64_t place,
                      Gathered* gathered, float* out) {
  const __m512 numbers = _mm512_maskz_loadu_ps(lanes, x + place);
  const Rounded rounded = Function::Of(lanes, numbers);
  const auto for_vml = static_cast<__mmask16>(lanes & ~rounded.are_vmls);
  _mm512_storeu_ps(gathered->numbers + gathered->count,
                   _mm512_maskz_compress_ps(for_vml, numbers));
  gathered->lanes[place / kLanes] = for_vml;
  gathered->count += __builtin_popcount(for_vml);
  _mm512_mask_storeu_ps(out + place, lanes, rounded.numbers);
}

__mmask16 FirstLanes(std::int64_t n) {
  return static_cast<__mmask16>((1U << std::min(n, kLanes)) - 1);
}

TJIT_AVX512 void CallVml(std::int64_t n, VmlF32 vml, std::int64_t mode,
                         Gathered* gathered, float* out) {
  if (gathered->count == 0) return;
  vml(static_cast<int>(gathered->count), gathered->numbers, gathered->numbers,
      mode);
  const float* result = gathered->numbers;
  for (std::int64_t place = 0; place < n; place += kLanes) {
    const __mmask16 lanes = gathered->lanes[place / kLanes];
    if (lanes == 0) continue;
    _mm512_mask_storeu_ps(
        out + place, lanes,
        _mm512_maskz_expand_ps(lanes, _mm512_loadu_ps(result)));
    result += __builtin_popcount(lanes);
  }
}

// n: kPart at most.
template <class Function>
[[gnu::target("avx512f,fma,popcnt")]] std::int64_t Part(
    std::int64_t n, const float* x, VmlF32 vml, std::int64_t mode, float* out) {
  if constexpr (kHasOrdinary<Function>) {
    if (n % kLanes == 0 && Ordinary<Function>(n, x, out)) return 0;
  }
  Gathered gathered;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    Step<Function>(kAll, x, i, &gathered, out);
  if (i < n) Step<Function>(FirstLanes(n - i), x, i, &gathered, out);
  CallVml(n, vml, mode, &gathered, out);
  return gathered.count;
}

template <class Function>
std::int64_t InParts(std::int64_t n, const float* x, VmlF32 vml,
                     std::int64_t mode, float* out) {
  std::int64_t by_vml = 0;
  for (std::int64_t i = 0; i < n; i += kPart) {
    by_vml += Part<Function>(std::min(kPart, n - i), x + i, vml, mode, out + i);
  }
  return by_vml;
}

}  // namespace

bool HasVmlExact() {
  return __builtin_cpu_supports("avx512f") != 0 &&
         __builtin_cpu_supports("fma") != 0 &&
         __builtin_cpu_supports("popcnt") != 0;
}

std::int64_t TanhExact(std::int64_t n, const float* x, VmlF32 vml,
                       std::int64_t mode, float* out) {
  return InParts<Tanh>(n, x, vml, mode, out);
}

std::int64_t ExpExact(std::int64_t n, const float* x, VmlF32 vml,
                      std::int64_t mode, float* out) {
  return InParts<Exp>(n, x, vml, mode, out);
}

std::int64_t LogExact(std::int64_t n, const float* x, VmlF32 vml,
                      std::int64_t mode, float* out) {
  return InParts<Log>(n, x, vml, mode, out);
}

}  // namespace tjit

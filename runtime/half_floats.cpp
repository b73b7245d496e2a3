#include "runtime/half_floats.h"

#include <c10/util/Half.h>
#include <immintrin.h>

#include <bit>
#include <cstring>

namespace tjit::runtime {
namespace {

constexpr std::int64_t kLanes = 8;

bool HasF16C() {
  static const bool has = __builtin_cpu_supports("avx2") != 0 &&
                          __builtin_cpu_supports("f16c") != 0;
  return has;
}

[[gnu::target("avx2,f16c")]] void ToF16(const float* from, std::uint16_t* to) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm256_cvtps_ph(_mm256_loadu_ps(from), 0));
}
[[gnu::target("avx2,f16c")]] void FromF16(const std::uint16_t* from,
                                          float* to) {
  const auto* const halves = reinterpret_cast<const __m128i*>(from);
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(halves)));
}

// Eight at a time, the last ones filled up.
template <class From, class To>
void Convert(void (*vector)(const From*, To*), const From* from, To* to,
             std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) vector(from + i, to + i);
  if (i == n) return;
  const auto left = static_cast<std::size_t>(n - i);
  From x[kLanes] = {};
  To y[kLanes];
  std::memcpy(x, from + i, left * sizeof(From));
  vector(x, y);
  std::memcpy(to + i, y, left * sizeof(To));
}

std::uint16_t ToBF16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x) >> 16;
  return static_cast<std::uint16_t>(x != x ? 0x7fc0 : bits);
}

}  // namespace

void ToHalves(HalfType type, const float* from, std::uint16_t* to,
              std::int64_t n) {
  if (type == HalfType::kF16 && HasF16C()) return Convert(ToF16, from, to, n);
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = type == HalfType::kBF16 ? ToBF16(from[i]) : c10::Half(from[i]).x;
  }
}

void FromHalves(HalfType type, const std::uint16_t* from, float* to,
                std::int64_t n) {
  if (type == HalfType::kF16 && HasF16C()) return Convert(FromF16, from, to, n);
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] =
        type == HalfType::kBF16
            ? std::bit_cast<float>(std::uint32_t{from[i]} << 16)
            : static_cast<float>(c10::Half(from[i], c10::Half::from_bits()));
  }
}

}  // namespace tjit::runtime

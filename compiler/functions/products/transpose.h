// Square blocks turned over, with AVX: row i of `from` becomes column i of
// `to`. Both row lengths count elements.
#pragma once

#include <immintrin.h>

#include <cstdint>

// Each instruction set has a copy of its own, which no other file may use.
namespace tjit::products {
namespace {

struct Transpose8 {
  static constexpr std::int64_t kBlock = 8;

  static void Transpose(const float* from, std::int64_t from_row, float* to,
                        std::int64_t to_row) {
    __m256 rows[8], pairs[8], fours[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      rows[i] = _mm256_loadu_ps(from + i * from_row);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
      pairs[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
      fours[i] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0x44);
      fours[i + 1] = _mm256_shuffle_ps(pairs[i], pairs[i + 2], 0xee);
      fours[i + 2] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0x44);
      fours[i + 3] = _mm256_shuffle_ps(pairs[i + 1], pairs[i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      _mm256_storeu_ps(to + i * to_row,
                       _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20));
      _mm256_storeu_ps(to + (i + 4) * to_row,
                       _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31));
    }
  }
};

struct Transpose4 {
  static constexpr std::int64_t kBlock = 4;

  static void Transpose(const double* from, std::int64_t from_row, double* to,
                        std::int64_t to_row) {
    __m256d rows[4], pairs[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      rows[i] = _mm256_loadu_pd(from + i * from_row);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 4; i += 2) {
      pairs[i] = _mm256_unpacklo_pd(rows[i], rows[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_pd(rows[i], rows[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      _mm256_storeu_pd(to + i * to_row,
                       _mm256_permute2f128_pd(pairs[i], pairs[i + 2], 0x20));
      _mm256_storeu_pd(to + (i + 2) * to_row,
                       _mm256_permute2f128_pd(pairs[i], pairs[i + 2], 0x31));
    }
  }
};

}  // namespace
}  // namespace tjit::products

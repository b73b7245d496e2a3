#include "compiler/functions/max_pool.h"

#include <immintrin.h>

#include <algorithm>
#include <limits>

namespace tjit {
namespace {

constexpr std::int64_t kLanes = 16;

#define TJIT_AVX512 [[gnu::target("avx512f"), gnu::always_inline]] inline

TJIT_AVX512 __m512i Splat(std::int64_t number) {
  return _mm512_set1_epi32(static_cast<int>(number));
}

TJIT_AVX512 __m512i Lanes() {
  return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                           15);
}

// The lanes whose column lies in the plane; a negative one is a large one.
TJIT_AVX512 __mmask16 Inside(__m512i columns, __m512i width) {
  return _mm512_cmplt_epu32_mask(columns, width);
}

// Of so many results of a row, from the first one of which the column is
// `begin` in the plane or before it.
struct Windows {
  __m512i columns;  // where each begins
  __m512i first;    // its first column in the plane
  __mmask16 lanes;
};

TJIT_AVX512 Windows WindowsAt(const PoolDim& dim, std::int64_t result) {
  Windows windows;
  windows.columns =
      _mm512_add_epi32(Splat(result * dim.stride - dim.padding),
                       _mm512_mullo_epi32(Lanes(), Splat(dim.stride)));
  windows.first = windows.columns;
  const __m512i none = _mm512_setzero_si512();
  __mmask16 before = _mm512_cmplt_epi32_mask(windows.first, none);
  while (before != 0) {
    windows.first = _mm512_mask_add_epi32(windows.first, before, windows.first,
                                          Splat(dim.dilation));
    before = _mm512_cmplt_epi32_mask(windows.first, none);
  }
  const std::int64_t left = std::min(dim.out - result, kLanes);
  windows.lanes = static_cast<__mmask16>((1U << left) - 1);
  return windows;
}

// The numbers of a row at `columns`, which are kStride apart (0: `any` are).
template <int kStride>
TJIT_AVX512 __m512 Load(const float* row, std::int64_t begin, __m512i columns,
                        __m512i width, __mmask16 lanes) {
  if constexpr (kStride == 1) {
    return _mm512_maskz_loadu_ps(lanes, row + begin);
  } else if constexpr (kStride == 2) {
    const __m512i low = _mm512_add_epi32(Splat(begin), Lanes());
    const __m512i high = _mm512_add_epi32(low, Splat(kLanes));
    const __m512i even = _mm512_slli_epi32(Lanes(), 1);
    return _mm512_permutex2var_ps(
        _mm512_maskz_loadu_ps(Inside(low, width), row + begin), even,
        _mm512_maskz_loadu_ps(Inside(high, width), row + begin + kLanes));
  } else {
    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), lanes, columns, row,
                                    4);
  }
}

TJIT_AVX512 void Store(__mmask16 lanes, __m512 largest, __m512i places,
                       float* out, std::int64_t* out_places) {
  _mm512_mask_storeu_ps(out, lanes, largest);
  const __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(places));
  const __m512i high =
      _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(places, 1));
  _mm512_mask_storeu_epi64(out_places, static_cast<__mmask8>(lanes), low);
  _mm512_mask_storeu_epi64(out_places + kLanes / 2,
                           static_cast<__mmask8>(lanes >> 8), high);
}

// Results [first, first + 16) of the row `row` of them, or as many as it has.
template <int kStride>
TJIT_AVX512 void Row(const PoolShape& shape, const Windows& windows,
                     std::int64_t first, std::int64_t row, const float* in,
                     float* out, std::int64_t* places) {
  const PoolDim &r = shape.rows, &c = shape.columns;
  std::int64_t from = row * r.stride - r.padding;
  const std::int64_t to =
      std::min(from + (r.window - 1) * r.dilation + 1, r.in);
  while (from < 0) from += r.dilation;
  const __m512i width = Splat(c.in);
  __m512 largest = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  __m512i place = _mm512_add_epi32(Splat(from * c.in), windows.first);
  for (std::int64_t y = from; y < to; y += r.dilation) {
    for (std::int64_t x = 0; x < c.window; ++x) {
      const std::int64_t shift = x * c.dilation;
      const __m512i columns = _mm512_add_epi32(windows.columns, Splat(shift));
      const __mmask16 lanes = windows.lanes & Inside(columns, width);
      const __m512 number =
          Load<kStride>(in + y * c.in, first * c.stride - c.padding + shift,
                        columns, width, lanes);
      const __mmask16 is_larger =
          _mm512_cmp_ps_mask(number, largest, _CMP_GT_OQ);
      const __mmask16 is_nan = _mm512_cmp_ps_mask(number, number, _CMP_UNORD_Q);
      const auto takes = static_cast<__mmask16>(lanes & (is_larger | is_nan));
      largest = _mm512_mask_mov_ps(largest, takes, number);
      place = _mm512_mask_add_epi32(place, takes, Splat(y * c.in), columns);
    }
  }
  Store(windows.lanes, largest, place, out, places);
}

template <int kStride>
[[gnu::target("avx512f")]] void Planes(const PoolShape& shape,
                                       std::int64_t planes, const float* in,
                                       float* out, std::int64_t* places) {
  const PoolDim &r = shape.rows, &c = shape.columns;
  for (std::int64_t first = 0; first < c.out; first += kLanes) {
    const Windows windows = WindowsAt(c, first);
    for (std::int64_t plane = 0; plane < planes; ++plane) {
      for (std::int64_t row = 0; row < r.out; ++row) {
        const std::int64_t at = (plane * r.out + row) * c.out + first;
        Row<kStride>(shape, windows, first, row, in + plane * r.in * c.in,
                     out + at, places + at);
      }
    }
  }
}

// Sixteen numbers of a row of the plane, and the windows that they lie in, of
// which there are sixteen at most.
struct Numbers {
  std::int64_t first_window = 0;
  __m512i window_of;    // by lane: the number's window, counted from the first
  __mmask16 in_plane;   // lanes whose number the row has
  __mmask16 in_window;  // lanes whose number lies in a window
  __mmask16 windows;    // which of the sixteen windows the row has
};

TJIT_AVX512 Numbers NumbersAt(const PoolDim& dim, std::int64_t column) {
  Numbers n;
  n.first_window = column / dim.window;
  const __m512i from_window =
      _mm512_add_epi32(Splat(column % dim.window), Lanes());
  // Exact: both are small.
  n.window_of = _mm512_cvttps_epi32(
      _mm512_div_ps(_mm512_cvtepi32_ps(from_window),
                    _mm512_set1_ps(static_cast<float>(dim.window))));
  const auto lanes = [](std::int64_t count) {
    return static_cast<__mmask16>(
        (1U << std::clamp<std::int64_t>(count, 0, kLanes)) - 1);
  };
  n.in_plane = lanes(dim.in - column);
  n.in_window = lanes(dim.out * dim.window - column);
  n.windows = lanes(dim.out - n.first_window);
  return n;
}

// Places as numbers of 32 bits without a sign; those that do not fit, and
// negative ones, are the largest such number, which is no place.
TJIT_AVX512 __m512i LoadPlaces(const std::int64_t* places, __mmask16 lanes) {
  const __m512i low =
      _mm512_maskz_loadu_epi64(static_cast<__mmask8>(lanes), places);
  const __m512i high = _mm512_maskz_loadu_epi64(
      static_cast<__mmask8>(lanes >> 8), places + kLanes / 2);
  return _mm512_inserti64x4(
      _mm512_castsi256_si512(_mm512_cvtusepi64_epi32(low)),
      _mm512_cvtusepi64_epi32(high), 1);
}

// Writes one plane. Returns how many windows have their place within them.
[[gnu::target("avx512f")]] std::int64_t PlaneBackward(
    const PoolShape& shape, const float* gradients, const std::int64_t* places,
    float* out) {
  const PoolDim &r = shape.rows, &c = shape.columns;
  std::int64_t found = 0;
  for (std::int64_t column = 0; column < c.in; column += kLanes) {
    const Numbers n = NumbersAt(c, column);
    float* to = out + column;
    for (std::int64_t row = 0; row < r.out; ++row) {
      const std::int64_t first = row * c.out + n.first_window;
      const __m512 gradient = _mm512_permutexvar_ps(
          n.window_of,
          _mm512_add_ps(_mm512_setzero_ps(),
                        _mm512_maskz_loadu_ps(n.windows, gradients + first)));
      const __m512i place = _mm512_permutexvar_epi32(
          n.window_of, LoadPlaces(places + first, n.windows));
      for (std::int64_t y = 0; y < r.window; ++y, to += c.in) {
        const __m512i own = _mm512_add_epi32(Splat(to - out), Lanes());
        const __mmask16 is_it =
            _mm512_mask_cmpeq_epi32_mask(n.in_window, place, own);
        found += __builtin_popcount(is_it);
        _mm512_mask_storeu_ps(to, n.in_plane,
                              _mm512_maskz_mov_ps(is_it, gradient));
      }
    }
    for (std::int64_t y = r.out * r.window; y < r.in; ++y, to += c.in) {
      _mm512_mask_storeu_ps(to, n.in_plane, _mm512_setzero_ps());
    }
  }
  return found;
}

}  // namespace

bool HasMaxPool(const PoolShape& shape) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  return __builtin_cpu_supports("avx512f") != 0 &&
         shape.columns.in < kMost / std::max<std::int64_t>(shape.rows.in, 1) &&
         (shape.columns.out + kLanes) * shape.columns.stride < kMost &&
         shape.columns.window * shape.columns.dilation < kMost;
}

void MaxPool(const PoolShape& shape, std::int64_t planes, const float* in,
             float* out, std::int64_t* places) {
  const auto run = shape.columns.stride == 1   ? Planes<1>
                   : shape.columns.stride == 2 ? Planes<2>
                                               : Planes<0>;
  // Plane by plane, so that what is read for other columns is in the cache.
  const PoolDim &r = shape.rows, &c = shape.columns;
  for (std::int64_t i = 0; i < planes; ++i) {
    run(shape, 1, in + i * r.in * c.in, out + i * r.out * c.out,
        places + i * r.out * c.out);
  }
}

bool HasMaxPoolBackward(const PoolShape& shape) {
  constexpr std::int64_t kMostWindow = 1024;
  const auto is_side_by_side = [](const PoolDim& d) {
    return d.stride == d.window && d.padding == 0 && d.dilation == 1 &&
           d.window <= kMostWindow && d.out <= d.in / d.window;
  };
  return HasMaxPool(shape) && is_side_by_side(shape.rows) &&
         is_side_by_side(shape.columns);
}

bool MaxPoolBackward(const PoolShape& shape, std::int64_t planes,
                     const float* gradients, const std::int64_t* places,
                     float* out) {
  const PoolDim &r = shape.rows, &c = shape.columns;
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < planes; ++i) {
    const std::int64_t first = i * r.out * c.out;
    found += PlaneBackward(shape, gradients + first, places + first,
                           out + i * r.in * c.in);
  }
  return found == planes * r.out * c.out;
}

}  // namespace tjit

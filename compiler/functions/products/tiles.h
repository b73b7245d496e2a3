// Products over tiles, for one instruction set: L has its vectors.
//
//   L::T, L::V, L::kWidth             an element, a vector, its elements
//   L::Load(p), L::Store(p, v)        at any address
//   L::PartOf(n), L::LoadPart(p, m), L::StorePart(p, m, v)
//                                     the first n elements; the others are 0
//   L::All(x), L::Fma(a, b, c), L::Zero()
//   L::Transpose(from, from_row, to, to_row)
//                                     kBlock rows of kBlock elements
#pragma once

#include "compiler/functions/products/packing.h"
#include "compiler/functions/products/sizes.h"

// Each instruction set has a copy of its own, which no other file may use.
namespace tjit::products {
namespace {

// What all tiles of a pass have in common. Sums start at `start`, or `zero` if
// that is null. In the end `add` is added to them if it is not null, or 0 if
// `adds_zero`.
template <class T>
struct Pass {
  std::int64_t terms;
  std::int64_t a_row, a_term;
  std::int64_t b_term;
  const T* start;
  std::int64_t start_row;
  T zero;  // where there is no start
  const T* add;
  std::int64_t add_row;
  bool adds_zero;
  T* c;
  std::int64_t c_row;
};

// kRows rows, kVectors vectors, of the last one `last` elements if kIsPart.
// The rows of a lie side by side in each term (kRowsTouch), or its terms in
// each row.
template <class L, bool kIsFused, bool kRowsTouch, int kRows, int kVectors,
          bool kIsPart>
void RunTile(const Pass<typename L::T>& pass, const typename L::T* a,
             const typename L::T* b, std::int64_t row, std::int64_t column,
             int last) {
  using T = typename L::T;
  using V = typename L::V;
  const auto part = L::PartOf(last);
  const auto load = [&](const T* from, int v) {
    if (kIsPart && v == kVectors - 1) return L::LoadPart(from, part);
    return L::Load(from);
  };
  V sum[kRows][kVectors];
  const V zero = L::All(pass.zero);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = zero;
  }
  if (pass.start != nullptr) {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const T* from = pass.start + (row + r) * pass.start_row + column;
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = load(from + v * L::kWidth, v);
      }
    }
  }
  const T* rows[kRows];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) rows[r] = a + r * pass.a_row;
  for (std::int64_t p = 0; p < pass.terms; ++p) {
    V term[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) term[v] = load(b + v * L::kWidth, v);
    b += pass.b_term;
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const V factor = L::All(kRowsTouch ? a[r] : rows[r][p]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        if constexpr (kIsFused) {
          sum[r][v] = L::Fma(factor, term[v], sum[r][v]);
        } else {
          sum[r][v] = sum[r][v] + factor * term[v];
        }
      }
    }
    if constexpr (kRowsTouch) a += pass.a_term;
  }
  if (pass.add != nullptr) {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const T* from = pass.add + (row + r) * pass.add_row + column;
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = load(from + v * L::kWidth, v) + sum[r][v];
      }
    }
  } else if (pass.adds_zero) {
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] = sum[r][v] + L::Zero();
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    T* to = pass.c + (row + r) * pass.c_row + column;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      if (kIsPart && v == kVectors - 1) {
        L::StorePart(to + v * L::kWidth, part, sum[r][v]);
      } else {
        L::Store(to + v * L::kWidth, sum[r][v]);
      }
    }
  }
}

template <class T>
using Tile = void (*)(const Pass<T>&, const T*, const T*, std::int64_t,
                      std::int64_t, int);

// The tile for up to `left` rows, and how many rows it has. 16 are two of 8:
// both keep the processor busy.
template <class L, bool kIsFused, bool kRowsTouch, int kVectors, bool kIsPart>
Tile<typename L::T> TileFor(std::int64_t left, std::int64_t* rows) {
#define TJIT_TILE(count) \
  *rows = count;         \
  return RunTile<L, kIsFused, kRowsTouch, count, kVectors, kIsPart>
  if constexpr (L::kRows >= 12) {
    if (left >= 12 && left != 16) {
      TJIT_TILE(12);
    }
    if (left >= 8) {
      TJIT_TILE(8);
    }
  } else if (left >= 6 && left != 8) {
    TJIT_TILE(6);
  }
  if (left >= 4) {
    TJIT_TILE(4);
  }
  if (left >= 2) {
    TJIT_TILE(2);
  }
  TJIT_TILE(1);
#undef TJIT_TILE
}

// Rows [0, rows) of one panel of up to kMostVectors vectors of columns. No tile
// lies in two packed panels of a.
template <class L, bool kIsFused, bool kRowsTouch>
void RunPanel(const Pass<typename L::T>& pass, const typename L::T* a,
              bool a_is_packed, const typename L::T* b, std::int64_t first_row,
              std::int64_t rows, std::int64_t column, std::int64_t columns) {
  using T = typename L::T;
  const bool is_wide = columns > L::kWidth;
  const int last = static_cast<int>(is_wide ? columns - L::kWidth : columns);
  const bool is_part = last != L::kWidth;
  for (std::int64_t row = 0; row < rows;) {
    std::int64_t left = rows - row;
    if (a_is_packed) left = Min(left, kMostRows - row % kMostRows);
    std::int64_t count = 0;
    Tile<T> tile;
    if (is_wide) {
      tile = is_part ? TileFor<L, kIsFused, kRowsTouch, 2, true>(left, &count)
                     : TileFor<L, kIsFused, kRowsTouch, 2, false>(left, &count);
    } else {
      tile = is_part ? TileFor<L, kIsFused, kRowsTouch, 1, true>(left, &count)
                     : TileFor<L, kIsFused, kRowsTouch, 1, false>(left, &count);
    }
    const T* from = a_is_packed ? a + row / kMostRows * kMostRows * pass.terms +
                                      row % kMostRows
                                : a + row * pass.a_row;
    tile(pass, from, b, first_row + row, column, last);
    row += count;
  }
}

// Columns [first, first + columns) of a pass.
template <class L, bool kIsFused>
void RunColumns(const Product& p, Pass<typename L::T> pass,
                const typename L::T* a, const typename L::T* b,
                std::int64_t first, std::int64_t columns,
                typename L::T* scratch) {
  using T = typename L::T;
  constexpr std::int64_t kPanel = kMostVectors * L::kWidth;
  const T* panels = b + first * p.b_column;
  if (p.packs_b) {
    PackB<L>(p, panels, columns, pass.terms, scratch);
    panels = scratch;
    pass.b_term = kPanel;
    scratch += (columns + kPanel - 1) / kPanel * kPanel * pass.terms;
  }
  const std::int64_t rows_at_once = p.packs_a ? kPackedRows : p.m;
  for (std::int64_t row = 0; row < p.m; row += rows_at_once) {
    const std::int64_t rows = Min(rows_at_once, p.m - row);
    const T* rows_of_a = a + row * p.a_row;
    if (p.packs_a) {
      PackA<L>(p, rows_of_a, rows, pass.terms, scratch);
      rows_of_a = scratch;
      pass.a_row = 1;
      pass.a_term = kMostRows;
    }
    const auto run = pass.a_row == 1 ? &RunPanel<L, kIsFused, true>
                                     : &RunPanel<L, kIsFused, false>;
    for (std::int64_t j = 0; j < columns; j += kPanel) {
      const T* panel = panels + (p.packs_b ? j * pass.terms : j);
      run(pass, rows_of_a, p.packs_a, panel, row, rows, first + j,
          Min(kPanel, columns - j));
    }
  }
}

template <class L, bool kIsFused>
void RunProduct(const Product& p, const typename L::T* a,
                const typename L::T* b, const typename L::T* z,
                typename L::T* c, typename L::T* scratch) {
  using T = typename L::T;
  const std::int64_t at_once = TermsOfPass(p, z == c);
  std::int64_t term = 0;
  do {
    Pass<T> pass = {};
    pass.terms = Min(at_once, p.k - term);
    pass.a_row = p.a_row;
    pass.a_term = p.a_term;
    pass.b_term = p.b_term;
    pass.c = c;
    pass.c_row = p.c_row;
    const bool is_first = term == 0;
    const bool is_last = term + pass.terms == p.k;
    pass.start_row = pass.add_row = p.c_row;
    pass.zero = p.order.starts_at_minus_zero ? T(-0.0) : T(0);
    pass.adds_zero = p.order.ends_at_zero && z == nullptr &&
                     (p.order.block != 0 ? is_first : is_last);
    if (p.order.block != 0) {
      pass.add = is_first ? z : c;
      if (is_first) pass.add_row = p.z_row;
    } else {
      pass.start = is_first ? nullptr : c;
      if (p.order.starts_at_z && is_first) {
        pass.start = z;
        pass.start_row = p.z_row;
      }
      if (!p.order.starts_at_z && is_last) {
        pass.add = z;
        pass.add_row = p.z_row;
      }
    }
    const std::int64_t columns_at_once = p.packs_b ? kPackedColumns : p.n;
    for (std::int64_t j = 0; j < p.n; j += columns_at_once) {
      RunColumns<L, kIsFused>(p, pass, a + term * p.a_term, b + term * p.b_term,
                              j, Min(columns_at_once, p.n - j), scratch);
    }
    term += pass.terms;
  } while (term < p.k);
}

template <class L>
void RunAnyProduct(const Product& p, const typename L::T* a,
                   const typename L::T* b, const typename L::T* z,
                   typename L::T* c, typename L::T* scratch) {
  if (p.order.is_fused) return RunProduct<L, true>(p, a, b, z, c, scratch);
  RunProduct<L, false>(p, a, b, z, c, scratch);
}

}  // namespace
}  // namespace tjit::products

// Operands of a product copied in the order in which tiles.h reads them; L as
// it says there.
#pragma once

#include "compiler/functions/products/sizes.h"

// Each instruction set has a copy of its own, which no other file may use.
namespace tjit::products {
namespace {

// Panels of kMostRows rows; in each, the rows of a term side by side.
template <class L>
void PackA(const Product& p, const typename L::T* a, std::int64_t rows,
           std::int64_t terms, typename L::T* to) {
  for (std::int64_t row = 0; row < rows; row += kMostRows) {
    const std::int64_t count = Min(kMostRows, rows - row);
    std::int64_t r = 0;
    const std::int64_t whole =
        p.a_term == 1 ? terms / L::kBlock * L::kBlock : 0;
    for (; r + L::kBlock <= count && whole != 0; r += L::kBlock) {
      const typename L::T* block = a + (row + r) * p.a_row;
      for (std::int64_t t = 0; t < whole; t += L::kBlock) {
        L::Transpose(block + t, p.a_row, to + t * kMostRows + r, kMostRows);
      }
      for (std::int64_t i = 0; i < L::kBlock; ++i) {
        for (std::int64_t t = whole; t < terms; ++t) {
          to[t * kMostRows + r + i] = block[t + i * p.a_row];
        }
      }
    }
    for (; r < count; ++r) {
      const typename L::T* from = a + (row + r) * p.a_row;
      for (std::int64_t t = 0; t < terms; ++t) {
        to[t * kMostRows + r] = from[t * p.a_term];
      }
    }
    to += kMostRows * terms;
  }
}

// Panels of kMostVectors vectors; in each, the columns of a term side by side.
template <class L>
void PackB(const Product& p, const typename L::T* b, std::int64_t columns,
           std::int64_t terms, typename L::T* to) {
  constexpr std::int64_t kPanel = kMostVectors * L::kWidth;
  constexpr std::int64_t kBlock = L::kBlock;
  for (std::int64_t column = 0; column < columns; column += kPanel) {
    const std::int64_t count = Min(kPanel, columns - column);
    const typename L::T* from = b + column * p.b_column;
    if (p.b_column == 1) {
      for (std::int64_t t = 0; t < terms; ++t) {
        const typename L::T* row = from + t * p.b_term;
        std::int64_t j = 0;
        for (; j + L::kWidth <= count; j += L::kWidth) {
          L::Store(to + t * kPanel + j, L::Load(row + j));
        }
        for (; j < count; ++j) to[t * kPanel + j] = row[j];
      }
      to += kPanel * terms;
      continue;
    }
    std::int64_t done = 0;  // columns
    const std::int64_t whole = p.b_term == 1 ? terms / kBlock * kBlock : 0;
    for (; done + kBlock <= count && whole != 0; done += kBlock) {
      const typename L::T* block = from + done * p.b_column;
      for (std::int64_t t = 0; t < whole; t += kBlock) {
        L::Transpose(block + t, p.b_column, to + t * kPanel + done, kPanel);
      }
      for (std::int64_t j = 0; j < kBlock; ++j) {
        for (std::int64_t t = whole; t < terms; ++t) {
          to[t * kPanel + done + j] = block[t + j * p.b_column];
        }
      }
    }
    for (; done < count; ++done) {
      for (std::int64_t t = 0; t < terms; ++t) {
        to[t * kPanel + done] = from[t * p.b_term + done * p.b_column];
      }
    }
    to += kPanel * terms;
  }
}

}  // namespace
}  // namespace tjit::products

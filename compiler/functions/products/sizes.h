// How much of a product is looked at at once.
//
// Note [Chunks of k]: packed operands are copied in chunks of k. A sum that
// is longer than a chunk waits in c between two chunks, which rounds nothing.
// That needs c not to be z, unless the sum starts at z.
#pragma once

#include "compiler/functions/products.h"

namespace tjit::products {

// Functions are static: each instruction set has a copy of its own, which no
// other file may use.
inline constexpr std::int64_t kMostRows = 12;
inline constexpr std::int64_t kMostVectors = 2;
inline constexpr std::int64_t kChunk = 256;           // terms that are packed
inline constexpr std::int64_t kPackedRows = 576;      // of a, a multiple of 12
inline constexpr std::int64_t kPackedColumns = 1024;  // of b

static inline std::int64_t Min(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

// Terms that one pass over c takes in: a sum that the order wants, or a chunk
// of it.
static inline std::int64_t TermsOfPass(const Product& p, bool z_is_c) {
  if (p.order.block != 0) return Min(p.order.block, p.k);
  if (p.order.lanes != 0) return p.k;
  const bool may_wait = p.order.starts_at_z || !z_is_c;
  return (p.packs_a || p.packs_b) && may_wait ? Min(kChunk, p.k) : p.k;
}

}  // namespace tjit::products

#include "compiler/functions/products.h"

#include "compiler/functions/products/sizes.h"

namespace tjit {
namespace {

// A panel has as many columns as there are floats in two vectors of AVX-512.
constexpr std::int64_t kWidestPanel = 32;

std::int64_t UpTo(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

struct Tables {
  Tables() {
    if (__builtin_cpu_supports("avx512f")) at[count++] = &kAvx512Products;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      at[count++] = &kAvx2Products;
    }
  }
  const ProductTable* at[2] = {};
  int count = 0;
};

// Columns of two vectors of four sums each, where vectors are widest.
constexpr std::int64_t kWidestFours = 8;

}  // namespace

const ProductTable* const* ProductTables(int* count) {
  static const Tables tables;
  *count = tables.count;
  return tables.at;
}

std::int64_t ScratchOf(const Product& p) {
  // All columns at once, see RunFourLanes().
  if (p.order.lanes == 4) return UpTo(p.n, kWidestFours) * p.k;
  const std::int64_t terms = products::TermsOfPass(p, /*z_is_c=*/true);
  std::int64_t columns = 0, rows = 0;
  if (p.packs_b) {
    columns = UpTo(products::Min(p.n, products::kPackedColumns), kWidestPanel);
  }
  if (p.packs_a) {
    rows = UpTo(products::Min(p.m, products::kPackedRows), products::kMostRows);
  }
  return terms * (columns + rows);
}

}  // namespace tjit

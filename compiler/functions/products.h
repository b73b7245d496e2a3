// Matrix products whose order of roundings is chosen by the caller:
//
//   c = z + op(a) op(b),  c of m rows and n columns, sums of k products
//
// How: a tile of up to 12 rows and two vectors of columns stays in registers
// while k runs. Its elements are summed up one by one, as the order says, so
// the shape of a tile plays no part in the bits. Which order a library has for
// a product of given sizes is found by comparing (runtime/library_calls/
// own_product.h). No header of the C++ library but <cstdint>, as the files
// that are compiled for one instruction set include this.
// Source of the algorithm: K. Goto and R. van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication", ACM TOMS 34 (2008): tiles in
// registers, panels of b in the first level of the cache, blocks of a in the
// second.
// Invariants: (1) An element of c depends on its row of op(a), its column of
// op(b) and its element of z alone. (2) No allocation, no state.
// Thread: any.
// Tested by: tests/compiler/functions/products_test.cpp
#pragma once

#include <cstdint>

namespace tjit {

// The order of the roundings of one element of c. With s the sum and p(i) the
// product a(i) b(i), a step is s = fma(a(i), b(i), s), or s = s + p(i).
struct ProductOrder {
  // A product is not rounded before it is added.
  bool is_fused = true;
  // The first sum starts at z; else it starts at 0, and z is added when it is
  // complete.
  bool starts_at_z = false;
  // So many products make a sum of their own, which starts at 0; these sums are
  // added up one by one, the first one to z. 0: all k make one sum.
  // REQUIRES: 0 where starts_at_z.
  std::int64_t block = 0;
  // Not 0: so many sums s(0), s(1), ... each take in every `lanes`th product.
  // 8 of them become 4, s(i) + s(i + 4); 4 become
  // (s(0) + s(2)) + (s(1) + s(3)). To that the last k % lanes products are
  // added one by one.
  // REQUIRES: 0, 4 or 8; of float, neither is_fused nor starts_at_z, no block;
  // a_term and b_term are 1. If it is 4: k is a multiple of it, and packs_b.
  std::int64_t lanes = 0;
  // A sum that starts at 0 starts at -0, so a product that is -0 stays -0.
  // REQUIRES: no lanes.
  bool starts_at_minus_zero = false;
  // Where there is no z, a complete sum is added to 0: one that has underflowed
  // to -0 becomes 0. So do libraries that set c to 0 first.
  bool ends_at_zero = false;

  friend constexpr bool operator==(const ProductOrder&,
                                   const ProductOrder&) = default;
};

// All lengths count elements. op(a) at row i and term p is
// a[i * a_row + p * a_term]; op(b) at term p and column j is
// b[p * b_term + j * b_column].
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_term = 0;
  std::int64_t b_term = 0, b_column = 0;
  std::int64_t c_row = 0;  // columns of c lie side by side
  std::int64_t z_row = 0;  // the same for z; 0: one row for all
  ProductOrder order;
  // Operands are copied into scratch first, in the order in which they are
  // read: it pays where they do not fit the cache.
  // REQUIRES: packs_a, or a_row or a_term is 1; packs_b, or b_column is 1.
  bool packs_a = false, packs_b = false;
};

// The operands belong to the caller. z: null is zeros; may be c itself, with
// z_row == c_row. c: overlaps neither a nor b. scratch: as many elements as
// ScratchOf() says; null if that is 0.
template <class T>
using ProductFn = void (*)(const Product& product, const T* a, const T* b,
                           const T* z, T* c, T* scratch);

struct ProductTable {
  const char* capability;  // as at::get_cpu_capability() names it
  ProductFn<float> f32;
  ProductFn<double> f64;
};

extern const ProductTable kAvx2Products;    // with AVX2 and FMA
extern const ProductTable kAvx512Products;  // with AVX-512F

// Those that this processor runs, the widest vectors first; `count` gets how
// many there are.
const ProductTable* const* ProductTables(int* count);

template <class T>
ProductFn<T> FunctionOf(const ProductTable& table);
template <>
inline ProductFn<float> FunctionOf<float>(const ProductTable& table) {
  return table.f32;
}
template <>
inline ProductFn<double> FunctionOf<double>(const ProductTable& table) {
  return table.f64;
}

// Elements of scratch that the functions of any table need.
std::int64_t ScratchOf(const Product& product);

}  // namespace tjit

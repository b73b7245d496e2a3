// The own products that may have the library's bits in one call.
//
// Which orders are worth a comparison was found by looking at MKL's results:
// operands of one huge number, its negative and ones show which products were
// added up before others. What is no candidate stays a library call.
// Source of that method: P. Xie et al., "FPRev: Revealing the Order of
// Floating-Point Summation by Numerical Testing" (2024).
// Thread: any.
// Tested by: tests/runtime/library_calls/own_product_test.cpp
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/functions/products.h"
#include "runtime/library_calls/internal.h"

namespace tjit::runtime {

// One product for each of `batches`, whose operands lie so many elements apart.
struct ProductCall {
  bool is_double = false;
  Product product;  // neither order nor packing is set
  std::int64_t batches = 1;
  std::int64_t a_batch = 0, b_batch = 0, c_batch = 0;
  SlotAddress a, b, c;
  // What is added; kNoSlot: nothing.
  SlotAddress z;
  // The call has beta and alpha as its scalars, which are 0 or 1, and 1.
  bool has_scalars = false;
};

inline bool HasAddend(const ProductCall& call) {
  return call.z.slot != kNoSlot;
}

// Columns from `first` on, as many as the product has.
struct ProductPart {
  std::int64_t first = 0;
  Product product;
};

struct ProductCandidate {
  const ProductTable* table;
  std::vector<ProductPart> parts;
  std::string name;
};

// The library's order may depend on where operands begin, modulo a vector. What
// is found for a call holds where each begins at the same place modulo this.
inline constexpr std::uint64_t kProductAlignment = 64;  // bytes

// The best guesses first.
std::vector<ProductCandidate> CandidatesFor(const ProductCall& call);

// Elements of scratch that the parts need one after the other.
std::int64_t ScratchOf(const std::vector<ProductPart>& parts);

}  // namespace tjit::runtime

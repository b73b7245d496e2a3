#include "runtime/library_calls/product_candidates.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tjit::runtime {
namespace {

constexpr std::int64_t kMostScratch = std::int64_t{4} << 20;  // bytes
// A smaller product is not worth packing what can be read as it lies.
constexpr std::int64_t kPackedProducts = 1 << 15;
// A larger one is tried in few ways.
constexpr std::int64_t kFewWaysProducts = 1 << 21;

// The columns of a call in one order, or in two: those up to `split`, and the
// rest.
struct Way {
  std::string name;
  ProductOrder order;
  std::int64_t split = 0;  // 0: one order
  ProductOrder rest = {};
};

constexpr ProductOrder kFused = {true, false, 0};
constexpr ProductOrder kApart = {false, false, 0};

// MKL makes dot products of vectors where b is turned and the result has few
// rows or columns.
bool HasDotProducts(const ProductCall& call) {
  const Product& p = call.product;
  return !call.is_double && (p.m < 4 || p.n < 16) && p.a_term == 1 &&
         p.b_term == 1 && p.b_column != 1 && p.k % 4 == 0 && p.a_row % 4 == 0 &&
         p.b_column % 4 == 0 && call.a_batch % 4 == 0 && call.b_batch % 4 == 0;
}

// The first multiple of four columns have four sums each, the others eight.
Way DotProducts(const Product& p) {
  const ProductOrder four = {false, false, 0, 4}, eight = {false, false, 0, 8};
  const std::int64_t whole = p.n / 4 * 4;
  if (whole == p.n) return {"dots", four};
  if (whole == 0) return {"dots", eight};
  return {"dots", four, whole, eight};
}

// What libraries do, but for how they store a sum. MKL has blocks of 192
// products, and of half of k for less than two of them; doubles are a chain in
// panels of 24 columns.
std::vector<Way> OrdersFor(const ProductCall& call) {
  constexpr std::int64_t kBlock = 192, kPanel = 24;
  const Product& p = call.product;
  std::vector<Way> ways = {{"chain", kFused}, {"apart", kApart}};
  const ProductOrder fused_from_z = {true, true, 0};
  const ProductOrder apart_from_z = {false, true, 0};
  if (HasAddend(call)) {
    ways.push_back({"chain from z", fused_from_z});
    ways.push_back({"apart from z", apart_from_z});
  }
  if (p.k > kBlock) {
    const std::int64_t block = p.k < 2 * kBlock ? p.k / 2 : kBlock;
    ways.push_back({absl::StrCat("blocks of ", block), {true, false, block}});
  }
  if (HasDotProducts(call)) ways.push_back(DotProducts(p));
  if (p.k == 1) ways.push_back({"one", {false, false, 0, 0, true}});
  const std::int64_t whole = p.n / kPanel * kPanel;
  if (call.is_double && whole != 0 && whole != p.n) {
    if (HasAddend(call)) {
      ways.push_back({"panels from z", fused_from_z, whole, apart_from_z});
    } else {
      ways.push_back({"panels", kFused, whole, kApart});
    }
  }
  return ways;
}

// Each order in both ways to store a sum. It makes a difference for sums that
// underflow, and with an addend for none.
std::vector<Way> WaysFor(const ProductCall& call) {
  std::vector<Way> ways;
  for (Way& way : OrdersFor(call)) {
    if (!HasAddend(call)) {
      Way to_zero = way;
      to_zero.name += " to zero";
      to_zero.order.ends_at_zero = to_zero.rest.ends_at_zero = true;
      ways.push_back(std::move(to_zero));
    }
    ways.push_back(std::move(way));
  }
  return ways;
}

// a and b packed or not, as far as that can be and may pay.
std::vector<std::pair<bool, bool>> PackingsFor(const Product& p,
                                               std::int64_t lanes) {
  if (lanes != 0) return {{false, true}};
  const bool needs_a = p.a_row != 1 && p.a_term != 1;
  const bool needs_b = p.b_column != 1;
  std::vector<std::pair<bool, bool>> packings = {{needs_a, needs_b}};
  if (p.m * p.n * p.k < kPackedProducts) return packings;
  if (!needs_b) packings.emplace_back(needs_a, true);
  if (!needs_a && p.m * p.n * p.k >= kFewWaysProducts) {
    packings.emplace_back(true, true);
  }
  return packings;
}

std::vector<ProductPart> PartsOf(const Product& product, const Way& way,
                                 bool packs_a, bool packs_b) {
  ProductPart part = {0, product};
  part.product.packs_a = packs_a;
  part.product.packs_b = packs_b;
  part.product.order = way.order;
  if (way.split == 0) return {part};
  ProductPart rest = part;
  part.product.n = way.split;
  rest.first = way.split;
  rest.product.n -= way.split;
  rest.product.order = way.rest;
  return {part, rest};
}

}  // namespace

std::int64_t ScratchOf(const std::vector<ProductPart>& parts) {
  std::int64_t most = 0;
  for (const ProductPart& part : parts) {
    most = std::max(most, tjit::ScratchOf(part.product));
  }
  return most;
}

std::vector<ProductCandidate> CandidatesFor(const ProductCall& call) {
  int count = 0;
  const ProductTable* const* const tables = ProductTables(&count);
  if (call.product.m * call.product.n * call.product.k >= kFewWaysProducts) {
    count = std::min(count, 1);
  }
  const std::int64_t item = call.is_double ? 8 : 4;
  std::vector<ProductCandidate> candidates;
  for (const Way& way : WaysFor(call)) {
    for (int i = 0; i < count; ++i) {
      for (const auto& [packs_a, packs_b] :
           PackingsFor(call.product, way.order.lanes)) {
        std::vector<ProductPart> parts =
            PartsOf(call.product, way, packs_a, packs_b);
        if (ScratchOf(parts) * item > kMostScratch) continue;
        candidates.push_back(
            {tables[i], std::move(parts),
             absl::StrCat(way.name, ", ", tables[i]->capability,
                          packs_a ? ", a packed" : "",
                          packs_b ? ", b packed" : "")});
      }
    }
  }
  return candidates;
}

}  // namespace tjit::runtime

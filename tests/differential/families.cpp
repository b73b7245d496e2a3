// See families.h.
#include "tests/differential/families.h"

#include "tests/differential/rng.h"
#include "tests/differential/sweep.h"

namespace tjit::differential {
namespace {

using G = Group;

std::vector<Family> MakeFamilies() {
  std::vector<Family> all;
  all.push_back({.name = "pointwise",
                 .share = 11,
                 .phase = {{G::kUnary, 20}, {G::kBinary, 25}, {G::kScalar, 15},
                           {G::kInplace, 20}, {G::kOut, 6}, {G::kCompare, 8},
                           {G::kReduce, 4}, {G::kView, 4}, {G::kState, 2},
                           {G::kOverlap, 4}, {G::kCalled, 30}}});
  all.push_back({.name = "views",
                 .share = 10,
                 .phase = {{G::kView, 30}, {G::kInplace, 26}, {G::kOverlap, 14},
                           {G::kBinary, 12}, {G::kUnary, 5}, {G::kShape, 6},
                           {G::kReduce, 3}, {G::kState, 4}, {G::kOut, 4},
                           {G::kCalled, 12}}});
  all.push_back({.name = "training",
                 .share = 13,
                 .phase = {{G::kUnary, 16}, {G::kBinary, 18}, {G::kScalar, 8},
                           {G::kMatmul, 16}, {G::kReduce, 6}, {G::kNn, 12},
                           {G::kView, 8}, {G::kShape, 4}, {G::kInplace, 3},
                           {G::kIndex, 3}, {G::kCalled, 16}},
                 .trains = true});
  all.push_back({.name = "images",
                 .share = 7,
                 .phase = {{G::kNn, 36}, {G::kUnary, 14}, {G::kBinary, 10},
                           {G::kReduce, 6}, {G::kView, 5}},
                 .trains = true,
                 .has_images = true});
  all.push_back({.name = "dtypes",
                 .share = 7,
                 .phase = {{G::kCast, 16}, {G::kBinary, 26}, {G::kScalar, 14},
                           {G::kCompare, 12}, {G::kInplace, 14},
                           {G::kReduce, 8}, {G::kUnary, 8}, {G::kShape, 3},
                           {G::kCalled, 24}},
                 .mixes_dtypes = true});
  all.push_back({.name = "indexing",
                 .share = 6,
                 .phase = {{G::kIndex, 28}, {G::kIndexWrite, 16},
                           {G::kBinary, 14}, {G::kInplace, 10}, {G::kReduce, 6},
                           {G::kUnary, 8}, {G::kShape, 8}, {G::kView, 6}}});
  all.push_back({.name = "random",
                 .share = 6,
                 .phase = {{G::kRandom, 9}, {G::kBinary, 30}, {G::kUnary, 18},
                           {G::kInplace, 16}, {G::kScalar, 8}, {G::kSeed, 1},
                           {G::kView, 6}, {G::kReduce, 4}}});
  all.push_back({.name = "branches",
                 .share = 6,
                 .phase = {{G::kBinary, 28}, {G::kUnary, 18}, {G::kInplace, 20},
                           {G::kScalar, 12}, {G::kState, 12}, {G::kMatmul, 6},
                           {G::kReduce, 4}},
                 .branches = true});
  all.push_back({.name = "exposure",
                 .share = 6,
                 .phase = {{G::kBinary, 28}, {G::kUnary, 16}, {G::kInplace, 18},
                           {G::kScalar, 12}, {G::kRaw, 8}, {G::kView, 8},
                           {G::kReduce, 5}},
                 .has_blobs = true});
  all.push_back({.name = "errors",
                 .share = 4,
                 .phase = {{G::kBinary, 26}, {G::kUnary, 16}, {G::kInplace, 18},
                           {G::kScalar, 12}, {G::kError, 6}, {G::kIndex, 6},
                           {G::kMatmul, 8}, {G::kReduce, 6}}});
  all.push_back({.name = "handover",
                 .share = 4,
                 .phase = {{G::kBinary, 28}, {G::kUnary, 18}, {G::kInplace, 22},
                           {G::kScalar, 12}, {G::kView, 8}, {G::kReduce, 6},
                           {G::kMatmul, 6}},
                 .hands_over = true});
  all.push_back({.name = "two_threads",
                 .share = 4,
                 .phase = {{G::kBinary, 28}, {G::kUnary, 18}, {G::kInplace, 16},
                           {G::kScalar, 12}, {G::kMatmul, 10}, {G::kView, 8},
                           {G::kReduce, 6}, {G::kRandom, 4}},
                 .concurrent = true});
  all.push_back({.name = "lengths",
                 .share = 6,
                 .phase = {{G::kLength, 22}, {G::kBinary, 22}, {G::kUnary, 14},
                           {G::kInplace, 8}, {G::kScalar, 8}, {G::kReduce, 5},
                           {G::kMatmul, 8}, {G::kView, 6}, {G::kState, 2},
                           {G::kNn, 3}},
                 .has_lengths = true});
  all.push_back({.name = "sweep", .share = 10, .phase = {}, .sweeps = true});
  // No row of it makes a real number of a complex one: libtorch warns of that
  // once in a process.
  all.push_back({.name = "complex",
                 .share = 0,
                 .phase = {{G::kComplex, 50},
                           {G::kComplexWrite, 16},
                           {G::kUnary, 6},
                           {G::kBinary, 10},
                           {G::kScalar, 5},
                           {G::kView, 8},
                           {G::kShape, 5},
                           {G::kReduce, 2}},
                 .has_complex = true});
  all.push_back({.name = "rows",
                 .share = 0,
                 .phase = {{G::kUnary, 14},
                           {G::kBinary, 24},
                           {G::kScalar, 12},
                           {G::kInplace, 16},
                           {G::kReduce, 26},
                           {G::kNn, 8},
                           {G::kCompare, 3},
                           {G::kView, 4},
                           {G::kOut, 3},
                           {G::kCalled, 20}},
                 .has_long_rows = true});
  return all;
}

}  // namespace

const std::vector<Family>& Families() {
  static const std::vector<Family> all = MakeFamilies();
  return all;
}

int FamilyOf(std::uint64_t seed) {
  if (IsSweep(seed)) return FamilyIndex("sweep");
  if (seed >= kFirstComplex) return FamilyIndex("complex");
  if (seed >= kFirstRows) return FamilyIndex("rows");
  std::int64_t at = Rng(seed ^ 0xfa311u).Int(0, 99);
  int index = 0;
  for (const Family& family : Families()) {
    at -= family.share;
    if (at < 0) return index;
    ++index;
  }
  return 0;
}

int FamilyIndex(std::string_view name) {
  const auto& all = Families();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace tjit::differential

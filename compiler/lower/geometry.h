// Recorded geometries: which elements of a storage they reach, and whether two
// of them meet. All of it in numbers, exact or on the safe side.
// Tested by: tests/compiler/lower/lower_test.cpp
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "recorder/tensor_meta.h"

namespace tjit::lower {

// Bits of TensorGeometry::key_set (c10::DispatchKeySet): the bytes are not the
// values.
inline constexpr std::uint64_t kConjugateKey = std::uint64_t{1} << 31;
inline constexpr std::uint64_t kNegativeKey = std::uint64_t{1} << 32;

// First and last element. REQUIRES: numel() > 0.
struct Reach {
  std::int64_t first = 0;
  std::int64_t last = 0;
};
Reach ReachOf(const TensorGeometry& g);

// The same elements in the same order: equal but for dims of size 1.
bool SameElements(const TensorGeometry& a, const TensorGeometry& b);

// No element twice. False where that is not seen from sorted strides.
bool IsInjective(const TensorGeometry& g);

// All `elements` of a storage, each once.
bool Covers(const TensorGeometry& g, std::int64_t elements);

// True if no element is in both. False where that is not seen: parts of one
// grid (slices, also with steps) are.
bool AreDisjoint(const TensorGeometry& a, const TensorGeometry& b);

// Dims of size > 1 by descending stride.
using DimOrder = absl::InlinedVector<int, kMaxDims>;
DimOrder DimsByStride(const TensorGeometry& g);

}  // namespace tjit::lower

// The tables of vml_exact.cpp, in the order in which permutations of
// registers look them up. Tested by: tests/runtime/bit_exact/vml_exact_test.cpp
#pragma once

#include <cstddef>

namespace tjit {

// Around a centre, tanh(centre + h) = value + h * slope + h^2 * (second + h *
// (third + ...)). Pieces are numbers alike in exponent and first two digits:
// from 2^-4, where smaller numbers are too, to 10. They lie where the lowest
// five bits of these say.
constexpr std::size_t kTanhPieces = 32;
constexpr int kTanhPieceBits = 21;  // below those
constexpr float kTanhLeast = 0x1p-4F;
struct alignas(64) TanhTable {
  float centre[kTanhPieces], value[kTanhPieces], slope[kTanhPieces],
      second[kTanhPieces], third[kTanhPieces], fourth[kTanhPieces],
      fifth[kTanhPieces], sixth[kTanhPieces];
  // Where |tanh - middle| is below this share of tanh, VML is called.
  float near[kTanhPieces];
};
extern const TanhTable kTanhTable;

// 2^(i / 128), the sum of the two.
constexpr std::size_t kRoots = 128;
struct alignas(64) RootTable {
  float high[kRoots], low[kRoots];
};
extern const RootTable kRootTable;

}  // namespace tjit

// The largest number of each window of a plane and where it lies, and what
// gradients it gets, with the bits of eager's max_pool2d_with_indices and its
// backward.
//
// Eager goes through one window after the other and branches on each number,
// which is a guess for the processor: 18 ns a window of four. Here 16 windows
// of a row of results go side by side, in the same order within each:
//
//   first = (-inf, the window's first place in the plane)
//   for each row and column of the window that lies in the plane:
//     if (x > largest || x is NaN) largest = x, place = that of x
//
// Backwards eager fills the plane with zeros and adds each window's gradient at
// its place. Where windows lie side by side a number belongs to one of them at
// most, so that 16 numbers are written at once:
//
//   place of the number's window == its own ? 0 + gradient : 0
//
// Invariants: (1) No torch header. (2) Reads nothing outside the planes.
// Thread: any.
// Tested by: tests/runtime/bit_exact/max_pool_test.cpp
#pragma once

#include <cstdint>

namespace tjit {

// One direction of a plane.
struct PoolDim {
  std::int64_t in = 0, out = 0;  // numbers, windows
  std::int64_t window = 1, stride = 1, padding = 0, dilation = 1;
};

struct PoolShape {
  PoolDim rows, columns;
};

// True if this processor has what MaxPool() needs (AVX-512), and places in a
// plane are numbers of 32 bits.
bool HasMaxPool(const PoolShape& shape);

// `planes` of them, one behind the other in all three arrays.
// REQUIRES: HasMaxPool(shape); strides and dilations are positive, paddings at
// most half of a window.
void MaxPool(const PoolShape& shape, std::int64_t planes, const float* in,
             float* out, std::int64_t* places);

// The same of MaxPoolBackward(), whose windows lie side by side in the plane:
// stride is window, and there are no paddings and dilations.
bool HasMaxPoolBackward(const PoolShape& shape);

// `gradients` and `places`: of the windows; out: as large as the planes. False
// if a place lies outside of its window, where eager adds as well: `out` has
// other numbers then.
// REQUIRES: HasMaxPoolBackward(shape).
bool MaxPoolBackward(const PoolShape& shape, std::int64_t planes,
                     const float* gradients, const std::int64_t* places,
                     float* out);

}  // namespace tjit

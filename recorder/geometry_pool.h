// Where a recorder finds the geometry objects that its records share.
// Tested by: tests/recorder/shared_geometry_test.cpp
#pragma once

#include <cstddef>
#include <vector>

#include "recorder/shared_geometry.h"

namespace tjit {

// Geometries that one recorder has met, each in a place that its hash gives:
// two of one place take turns there. What has lost its place gets an object of
// its own when it comes once more, which takes memory and is no fault.
//
// Takes up to 200 KB, most of it objects that records share.
// Thread: one at a time.
class GeometryPool {
 public:
  // THROWS std::bad_alloc; the pool is as it was.
  SharedGeometry Share(const TensorGeometry& g);

 private:
  // A training step of a large model has some hundred.
  static constexpr std::size_t kPlaces = 1024;
  std::vector<SharedGeometry> places_;  // empty before the first
};

}  // namespace tjit

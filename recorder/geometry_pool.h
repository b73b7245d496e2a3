// Where a recorder finds the geometry objects that its records share.
// Tested by: tests/recorder/shared_geometry_test.cpp
#pragma once

#include <cstddef>

#include "absl/container/flat_hash_set.h"
#include "recorder/shared_geometry.h"

namespace tjit {

// The last geometries that one recorder has met. One that was forgotten gets
// an object of its own once more, which takes memory and is no fault.
// Thread: one at a time.
class GeometryPool {
 public:
  SharedGeometry Share(const TensorGeometry& g);

 private:
  // A training step of a large model has some hundred.
  static constexpr std::size_t kMost = 512;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const TensorGeometry& g) const;
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const TensorGeometry& a, const TensorGeometry& b) const {
      return a == b;
    }
  };
  absl::flat_hash_set<SharedGeometry, Hash, Equal> known_;
};

}  // namespace tjit

#include "recorder/geometry_pool.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tjit {

std::size_t GeometryPool::Hash::operator()(const TensorGeometry& g) const {
  return XXH3_64bits(&g, sizeof(g));
}

SharedGeometry GeometryPool::Share(const TensorGeometry& g) {
  if (const auto known = known_.find(g); known != known_.end()) return *known;
  // What a program calls in sizes that do not come again pushes out the rest,
  // for one more object each.
  if (known_.size() >= kMost) known_.clear();
  return *known_.emplace(g).first;
}

}  // namespace tjit

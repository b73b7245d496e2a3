#include "recorder/tensor_meta.h"

namespace tjit {
namespace {

// True if walking `order` (innermost dim first) visits memory without gaps.
// The stride of a dim of size 1 means nothing.
bool IsDenseIn(const TensorGeometry& g, const int* order, int count) {
  std::int64_t expected = 1;
  for (int i = 0; i < count; ++i) {
    const int d = order[i];
    if (g.sizes[d] == 1) continue;
    if (g.strides[d] != expected) return false;
    expected *= g.sizes[d];
  }
  return true;
}

// Channels are dim 1 and lie innermost, the others keep their order.
bool IsChannelsLast(const TensorGeometry& g) {
  static constexpr int kOrder4[] = {1, 3, 2, 0};
  static constexpr int kOrder5[] = {1, 4, 3, 2, 0};
  if (g.ndim == 4) return IsDenseIn(g, kOrder4, 4);
  if (g.ndim == 5) return IsDenseIn(g, kOrder5, 5);
  return false;
}

}  // namespace

LayoutClass LayoutOf(const TensorGeometry& g) {
  bool is_broadcast = false;
  for (int d = 0; d < g.ndim; ++d) {
    if (g.sizes[d] == 0) return LayoutClass::kEmpty;
    if (g.sizes[d] > 1 && g.strides[d] == 0) is_broadcast = true;
  }
  if (is_broadcast) return LayoutClass::kBroadcast;

  int order[kMaxDims];
  for (int d = 0; d < g.ndim; ++d) order[d] = g.ndim - 1 - d;
  if (IsDenseIn(g, order, g.ndim)) return LayoutClass::kContiguous;
  if (IsChannelsLast(g)) return LayoutClass::kChannelsLast;
  if (g.ndim >= 2) {
    order[0] = g.ndim - 2;
    order[1] = g.ndim - 1;
    if (IsDenseIn(g, order, g.ndim)) return LayoutClass::kTransposed;
  }
  return LayoutClass::kStrided;
}

const char* LayoutName(LayoutClass layout) {
  switch (layout) {
    case LayoutClass::kContiguous: return "contiguous";
    case LayoutClass::kChannelsLast: return "channels_last";
    case LayoutClass::kTransposed: return "transposed";
    case LayoutClass::kStrided: return "strided";
    case LayoutClass::kBroadcast: return "broadcast";
    case LayoutClass::kEmpty: return "empty";
  }
  return "?";
}

}  // namespace tjit

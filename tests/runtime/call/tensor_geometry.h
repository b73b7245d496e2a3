// The geometry of a tensor, for tests that record steps by hand: without the
// runtime, whose own is what some of them test.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "recorder/tensor_meta.h"

namespace tjit::testing {

inline TensorGeometry GeometryOf(const at::Tensor& t) {
  TensorGeometry g;
  g.key_set = t.key_set().raw_repr();
  g.offset = t.storage_offset();
  g.dtype = static_cast<std::uint8_t>(t.scalar_type());
  g.ndim = static_cast<std::uint8_t>(t.dim());
  g.itemsize = static_cast<std::uint8_t>(t.itemsize());
  g.wrapped_number = t.unsafeGetTensorImpl()->is_wrapped_number();
  std::copy(t.sizes().begin(), t.sizes().end(), g.sizes);
  std::copy(t.strides().begin(), t.strides().end(), g.strides);
  return g;
}

}  // namespace tjit::testing

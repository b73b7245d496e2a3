#include "runtime/call/plain_tensor.h"

namespace tjit::runtime {

using c10::DispatchKey;

const std::uint64_t kPlainKeys =
    c10::DispatchKeySet({DispatchKey::CPU, DispatchKey::AutogradCPU,
                         DispatchKey::ADInplaceOrView,
                         DispatchKey::AutocastCPU, DispatchKey::Conjugate,
                         DispatchKey::Negative})
        .raw_repr();

TensorGeometry GeometryOf(const c10::TensorImpl* impl) {
  TensorGeometry g;
  g.key_set = impl->key_set().raw_repr();
  g.offset = impl->storage_offset();
  g.dtype = static_cast<std::uint8_t>(
      c10::typeMetaToScalarType(impl->dtype()));
  g.itemsize = static_cast<std::uint8_t>(impl->itemsize());
  g.ndim = static_cast<std::uint8_t>(impl->dim());
  g.wrapped_number = impl->is_wrapped_number();
  const c10::IntArrayRef sizes = impl->sizes();
  const c10::IntArrayRef strides = impl->strides();
  for (int d = 0; d < g.ndim; ++d) {
    g.sizes[d] = sizes[d];
    g.strides[d] = strides[d];
  }
  return g;
}

}  // namespace tjit::runtime

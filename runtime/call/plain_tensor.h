// Plain dense CPU tensors, the only ones that are recorded and deferred.
//
// Thread: any that may read the tensor.
// Tested by: tests/runtime/replay_test.cpp, tests/runtime/odd_moments_test.cpp
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <cstdint>

#include "recorder/tensor_meta.h"
#include "runtime/memory/object_pool.h"

namespace tjit::runtime {

// The geometry of a plain tensor. REQUIRES: IsPlain(impl).
TensorGeometry GeometryOf(const c10::TensorImpl* impl);

// Keys a plain tensor may have; anything else has a meaning of its own.
extern const std::uint64_t kPlainKeys;

// Plain dense CPU tensors only: strided, no subclass, no functorch, sparse,
// quantized, meta, symbolic sizes, at most kMaxDims dims.
inline bool IsPlain(const c10::TensorImpl* impl) {
  return (impl->key_set().raw_repr() & ~kPlainKeys) == 0 &&
         HasPlainVtable(impl) && impl->unsafe_storage() &&
         !impl->has_symbolic_sizes_strides() &&
         impl->sizes().size() <= kMaxDims;
}

// True if `impl` has this geometry, wherever in its storage it begins.
inline bool SameGeometry(const c10::TensorImpl* impl,
                         const TensorGeometry& g) {
  if (impl->key_set().raw_repr() != g.key_set || !HasPlainVtable(impl)) {
    return false;
  }
  const c10::IntArrayRef sizes = impl->sizes();
  if (sizes.size() != g.ndim ||
      static_cast<std::uint8_t>(c10::typeMetaToScalarType(impl->dtype())) !=
          g.dtype ||
      impl->is_wrapped_number() != g.wrapped_number) {
    return false;
  }
  const std::int64_t* size = sizes.data();
  const std::int64_t* stride = impl->strides().data();
  for (int d = 0; d < g.ndim; ++d) {
    if (size[d] != g.sizes[d] || stride[d] != g.strides[d]) return false;
  }
  return true;
}

inline c10::StorageImpl* StorageOf(const c10::TensorImpl* impl) {
  if (HasPlainVtable(impl)) {
    return impl->unsafe_storage().unsafeGetStorageImpl();
  }
  return impl->has_storage() ? impl->unsafe_storage().unsafeGetStorageImpl()
                             : nullptr;
}

}  // namespace tjit::runtime

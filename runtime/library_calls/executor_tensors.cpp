// Making and rebinding the executor's tensors.
//
// A tensor that the program saw outside inference mode has the autograd key
// and the in-place-or-view key; libtorch's constructor decides by the mode of
// the thread, so Make() sets the mode that the recorded key set shows. While
// steps run those keys are excluded by the thread state that the caller sets.
#include "runtime/library_calls/executor_tensors.h"

#include <c10/core/DispatchKeySet.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorImpl.h>

#include <utility>

namespace tjit::runtime {

at::Tensor ExecutorTensors::Make(std::int32_t slot, std::uint64_t bytes,
                                 const TensorGeometry& geometry) {
  TORCH_INTERNAL_ASSERT(slot >= 0);
  const auto index = static_cast<std::size_t>(slot);
  if (index >= storages_.size()) storages_.resize(index + 1);
  auto& storage = storages_[index];
  if (!storage) {
    storage = c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), bytes,
        c10::DataPtr(nullptr, c10::Device(c10::kCPU)), /*allocator=*/nullptr,
        /*resizable=*/false);
  } else if (storage->nbytes() < bytes) {
    // Slots of other segments share the storage: the largest size stands, and
    // is only looked at to check bounds.
    storage->set_nbytes(bytes);
  }

  const c10::DispatchKeySet keys(c10::DispatchKeySet::RAW, geometry.key_set);
  const c10::InferenceMode mode(!keys.has(c10::DispatchKey::ADInplaceOrView));
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      c10::Storage(storage), keys,
      c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(geometry.dtype)));
  impl->set_sizes_and_strides(c10::IntArrayRef(geometry.sizes, geometry.ndim),
                              c10::IntArrayRef(geometry.strides, geometry.ndim),
                              geometry.offset);
  if (geometry.wrapped_number) impl->set_wrapped_number(true);
  return at::Tensor(std::move(impl));
}

void ExecutorTensors::Rebind(c10::StorageImpl* storage, void* data) {
  storage->set_data_ptr_noswap(c10::DataPtr(data, c10::Device(c10::kCPU)));
}

}  // namespace tjit::runtime

// Making and rebinding the executor's tensors.
#include "runtime/library_calls/executor_tensors.h"

#include "runtime/library_calls/recorded_tensors.h"

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

  return TensorOver(c10::Storage(storage), geometry, geometry.offset);
}

void ExecutorTensors::Rebind(c10::StorageImpl* storage, void* data) {
  storage->set_data_ptr_noswap(c10::DataPtr(data, c10::Device(c10::kCPU)));
}

}  // namespace tjit::runtime

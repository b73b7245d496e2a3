// The executor's own tensors: one StorageImpl per slot of a run, shared by all
// its aliases (libtorch compares storage identity), bound to memory anew for
// every run.
//
// The tensors never own memory and are invisible to the program: no autograd
// meta, no version counter of the program, no arming.
// Thread: one per StepClass, so used under its thread state's mutex. Tested by:
// tests/runtime/library_calls/library_calls_test.cpp
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <vector>

#include "recorder/op_record.h"

namespace tjit::runtime {

class ExecutorTensors {
 public:
  // A tensor with this geometry over the storage of `slot`. `bytes` is the
  // size of the storage. Owned by the caller; valid as long as this object.
  at::Tensor Make(std::int32_t slot, std::uint64_t bytes,
                  const TensorGeometry& geometry);

  // Where the storage of `slot` points now; null if no tensor uses it.
  void* data_of(std::int32_t slot) const {
    const auto index = static_cast<std::size_t>(slot);
    if (index >= storages_.size() || !storages_[index]) return nullptr;
    return storages_[index]->_mutable_data_ptr_no_checks().get();
  }

  // Points the storage of `slot` at `data`. No-op for slots no tensor uses.
  void Bind(std::int32_t slot, void* data) {
    if (static_cast<std::size_t>(slot) < storages_.size() && storages_[slot]) {
      Rebind(storages_[slot].get(), data);
    }
  }

 private:
  static void Rebind(c10::StorageImpl* storage, void* data);
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> storages_;
};

}  // namespace tjit::runtime

// Tensors of a recorded call: taken out of its arguments, made anew over the
// storage of another call, and found again.
// Threads: any. Tested by: tests/runtime/library_calls/library_calls_test.cpp,
// tests/runtime/thread/jit_parts_test.cpp
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>

#include "recorder/tensor_meta.h"

namespace tjit::runtime {

// Replaces every tensor by an undefined one, so that nothing is kept alive.
void DropTensors(torch::jit::Stack* stack);

// A tensor of this geometry over `storage`, but from `offset` elements on. It
// has the keys that the recorded one had, and no autograd metadata.
at::Tensor TensorOver(c10::Storage storage, const TensorGeometry& geometry,
                      std::int64_t offset);

// Another tensor over the storage of `t`: its geometry, keys and version
// counter, and no graph for gradients.
at::Tensor AliasOf(const at::Tensor& t);

// The tensor, or an undefined one if it is gone.
at::Tensor Locked(const c10::weak_intrusive_ptr<c10::TensorImpl>& weak);

}  // namespace tjit::runtime

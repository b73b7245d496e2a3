// A tensor that has sizes, strides and a dtype, and no bytes: for observers
// that ask for the inputs of what tjit shows them (Note [Observers] in
// thread/observers.h), as torch.profiler(record_shapes=True) does.
//
// Thread: any. Tested by: tests/runtime/thread/observers_test.cpp
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace tjit::runtime {

at::Tensor ShapeTensor(at::IntArrayRef sizes, at::IntArrayRef strides,
                       at::ScalarType dtype);

// `input` with tensors of that kind in place of its tensors, lists of them too.
// Numbers may be others when it is shown, so there are none; lists of them,
// which are sizes and the like, stay. None in place of all else.
c10::IValue ShapesOf(const c10::IValue& input);

}  // namespace tjit::runtime

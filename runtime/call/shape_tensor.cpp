#include "runtime/call/shape_tensor.h"

#include <c10/core/Storage.h>

#include <utility>

namespace tjit::runtime {

at::Tensor ShapeTensor(at::IntArrayRef sizes, at::IntArrayRef strides,
                       at::ScalarType dtype) {
  c10::Storage nothing(c10::Storage::use_byte_size_t(), /*size_bytes=*/0,
                       c10::DataPtr(nullptr, c10::Device(c10::kCPU)),
                       /*allocator=*/nullptr, /*resizable=*/false);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(nothing), c10::DispatchKeySet(c10::DispatchKey::CPU),
      caffe2::TypeMeta::fromScalarType(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

c10::IValue ShapesOf(const c10::IValue& input) {
  if (input.isTensor()) {
    const at::Tensor& tensor = input.toTensor();
    const bool has_strides =
        tensor.defined() && tensor.layout() == at::kStrided;
    return has_strides ? ShapeTensor(tensor.sizes(), tensor.strides(),
                                     tensor.scalar_type())
                       : c10::IValue();
  }
  if (input.isIntList() || input.isBoolList()) return input;
  if (!input.isList()) return {};
  c10::impl::GenericList list(c10::AnyType::get());
  for (const c10::IValue& item : input.toListRef()) {
    list.push_back(ShapesOf(item));
  }
  return list;
}

}  // namespace tjit::runtime

// A tensor that the program saw outside inference mode has the autograd key
// and the in-place-or-view key; libtorch's constructor decides by the mode of
// the thread, so TensorOver() sets the mode that the recorded key set shows.
// While steps run those keys are excluded by the thread state that the caller
// sets.
#include "runtime/library_calls/recorded_tensors.h"

#include <c10/core/DispatchKeySet.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarType.h>
#include <c10/core/TensorImpl.h>

#include <utility>

namespace tjit::runtime {

void DropTensors(torch::jit::Stack* stack) {
  for (c10::IValue& v : *stack) {
    if (v.isTensor()) {
      v = at::Tensor();
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      list.resize(v.toTensorList().size());
      v = list;
    } else if (v.isList() && v.toListRef().size() > 0) {
      const c10::List<c10::IValue> old = v.toList();
      const c10::TypePtr element = old.elementType();
      const bool optional_tensors =
          element->kind() == c10::TypeKind::OptionalType &&
          element->expectRef<c10::OptionalType>().getElementType()->kind() ==
              c10::TypeKind::TensorType;
      if (!optional_tensors) {
        v = v.deepcopy();  // callers pass lists by reference
        continue;
      }
      c10::List<std::optional<at::Tensor>> list;
      for (std::size_t i = 0; i < old.size(); ++i) {
        list.push_back(old.get(i).isNone() ? std::optional<at::Tensor>()
                                           : at::Tensor());
      }
      v = list;
    }
  }
}

at::Tensor TensorOver(c10::Storage storage, const TensorGeometry& geometry,
                      std::int64_t offset) {
  const c10::DispatchKeySet keys(c10::DispatchKeySet::RAW, geometry.key_set);
  const c10::InferenceMode mode(!keys.has(c10::DispatchKey::ADInplaceOrView));
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      std::move(storage), keys,
      c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(geometry.dtype)));
  impl->set_sizes_and_strides(c10::IntArrayRef(geometry.sizes, geometry.ndim),
                              c10::IntArrayRef(geometry.strides, geometry.ndim),
                              offset);
  if (geometry.wrapped_number) impl->set_wrapped_number(true);
  return at::Tensor(std::move(impl));
}

namespace {

at::Tensor TensorOf(c10::intrusive_ptr<c10::TensorImpl> impl) {
  return at::Tensor(
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(
          impl.release()));
}

}  // namespace

at::Tensor AliasOf(const at::Tensor& t) {
  const c10::TensorImpl* const from = t.unsafeGetTensorImpl();
  return TensorOf(from->shallow_copy_and_detach(
      t.is_inference()
          ? c10::VariableVersion(c10::VariableVersion::DISABLED)
          : from->version_counter(),
      /*allow_tensor_metadata_change=*/true));
}

at::Tensor Locked(const c10::weak_intrusive_ptr<c10::TensorImpl>& weak) {
  c10::intrusive_ptr<c10::TensorImpl> impl = weak.lock();
  return impl.defined() ? TensorOf(std::move(impl)) : at::Tensor();
}

}  // namespace tjit::runtime

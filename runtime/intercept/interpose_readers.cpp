// Interposed functions that read bytes without an op and without the hook, and
// makers of tensors that let go of the pointer they fill through.
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/ArrayRef.h>
#include <dlfcn.h>
#include <torch/csrc/jit/serialization/flatbuffer_serializer.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/call/interpose.h"
#include "runtime/intercept/foreign_kernels.h"
#include "runtime/memory/deferred_storage.h"
#include "runtime/platform/thread_context.h"
#include "runtime/thread/materialize.h"

namespace {

using tjit::FlushReason;
namespace runtime = tjit::runtime;

bool MustLook() { return runtime::MayHavePending(); }

c10::TensorImpl* ImplOf(const at::TensorBase& t) {
  return t.defined() ? t.unsafeGetTensorImpl() : nullptr;
}

void ReadyToRead(const at::TensorBase& t) {
  if (runtime::t_context.in_function) [[unlikely]]
    runtime::RecordHostRead();
  if (MustLook()) {
    runtime::MaterializeForRead(ImplOf(t), FlushReason::kConstRead);
  }
}

void ArmAgain(const at::TensorBase& t) {
  if (runtime::g_enabled.load(std::memory_order_relaxed) &&
      runtime::t_context.inside == 0) {
    runtime::Arm(ImplOf(t));
  }
}

bool LiesInTorchPython(const void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 &&
         std::string_view(info.dli_fname).ends_with("/libtorch_python.so");
}

// A reader that lets go of the pointers it takes: they expose nothing, and the
// hook is set again.
class ReadScope {
 public:
  explicit ReadScope(const at::TensorBase& t) : tensor_(t) { ReadyToRead(t); }
  ~ReadScope() { ArmAgain(tensor_); }
  ReadScope(const ReadScope&) = delete;
  ReadScope& operator=(const ReadScope&) = delete;

 private:
  const at::TensorBase& tensor_;
  runtime::ReaderScope reader_;
};

// The operands hold final addresses, so what the iterator took stays right.
void MakeOperandsReady(const at::TensorIteratorBase& iterator) {
  for (int i = 0; i < iterator.ntensors(); ++i) {
    c10::TensorImpl* operand = ImplOf(iterator.tensor_base(i));
    if (i < iterator.noutputs()) {
      runtime::MaterializeForWrite(operand, FlushReason::kConstRead);
    } else {
      runtime::MaterializeForRead(operand, FlushReason::kConstRead);
    }
  }
}

// An ArrayRef of any T is a pointer and a length.
using AnyArray = c10::ArrayRef<char>;

template <class Maker>
at::Tensor MakeAndArm(Maker* next, AnyArray values,
                      const c10::TensorOptions& options) {
  at::Tensor made;
  {
    runtime::ReaderScope reader;
    made = next(values, options);
  }
  if (runtime::t_context.in_function) [[unlikely]]
    runtime::ForgetFill(made);
  ArmAgain(made);
  return made;
}

}  // namespace

#define TJIT_CONST_POINTER(symbol)                                 \
  TJIT_INTERPOSED const void* symbol(const at::TensorBase* self) { \
    ReadyToRead(*self);                                            \
    return TJIT_NEXT(symbol)(self);                                \
  }
#define TJIT_TENSOR_MAKER(symbol)                              \
  TJIT_INTERPOSED at::Tensor symbol(                           \
      AnyArray values, const c10::TensorOptions& options) {    \
    return MakeAndArm(TJIT_NEXT(symbol), values, options);     \
  }
#include "runtime/intercept/interposed.def"

// std::ostream& at::print(std::ostream&, const Tensor&, int64_t)
TJIT_INTERPOSED std::ostream& _ZN2at5printERSoRKNS_6TensorEl(
    std::ostream& stream, const at::Tensor& tensor, std::int64_t line) {
  ReadScope scope(tensor);
  return TJIT_NEXT(_ZN2at5printERSoRKNS_6TensorEl)(stream, tensor, line);
}

// torch::jit::getWriteableTensorData(const Tensor&, bool)
TJIT_INTERPOSED torch::jit::WriteableTensorData
_ZN5torch3jit22getWriteableTensorDataERKN2at6TensorEb(const at::Tensor& tensor,
                                                      bool to_cpu) {
  ReadScope scope(tensor);
  return TJIT_NEXT(_ZN5torch3jit22getWriteableTensorDataERKN2at6TensorEb)(
      tensor, to_cpu);
}

// at::native::resize_bytes_cpu(StorageImpl*, size_t): copies the old bytes
TJIT_INTERPOSED void _ZN2at6native16resize_bytes_cpuEPN3c1011StorageImplEm(
    c10::StorageImpl* storage, std::size_t bytes) {
  if (runtime::t_context.in_function) [[unlikely]]
    runtime::RecordHostRead();
  if (MustLook()) {
    runtime::MaterializeForRead(storage, FlushReason::kConstRead);
  }
  TJIT_NEXT(_ZN2at6native16resize_bytes_cpuEPN3c1011StorageImplEm)
  (storage, bytes);
}

// at::native::cpu_equal(const Tensor&, const Tensor&)
TJIT_INTERPOSED bool _ZN2at6native9cpu_equalERKNS_6TensorES3_(
    const at::Tensor& a, const at::Tensor& b) {
  ReadyToRead(a);
  ReadyToRead(b);
  return TJIT_NEXT(_ZN2at6native9cpu_equalERKNS_6TensorES3_)(a, b);
}

// at::TensorIteratorBase::build(TensorIteratorConfig&): a program's own loop
TJIT_INTERPOSED void
_ZN2at18TensorIteratorBase5buildERNS_20TensorIteratorConfigE(
    at::TensorIteratorBase* self, at::TensorIteratorConfig& config) {
  TJIT_NEXT(_ZN2at18TensorIteratorBase5buildERNS_20TensorIteratorConfigE)
  (self, config);
  if (runtime::t_context.in_function) [[unlikely]] {
    runtime::RecordForeignKernel();
  }
  if (MustLook()) MakeOperandsReady(*self);
}

// torch::jit::save_mobile_module_to_bytes(...): runs __getstate__ and copies
// what it returned, so its ops must not be deferred either.
TJIT_INTERPOSED torch::jit::DetachedBuffer::UniqueDetachedBuffer
_ZN5torch3jit27save_mobile_module_to_bytesERKNS0_6mobile6ModuleERKSt13unordered_mapINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESB_St4hashISB_ESt8equal_toISB_ESaISt4pairIKSB_SB_EEESM_RKSt6vectorIN3c106IValueESaISP_EE(
    const torch::jit::mobile::Module& module,
    const torch::jit::ExtraFilesMap& extra_files,
    const torch::jit::ExtraFilesMap& jit_sources,
    const std::vector<c10::IValue>& jit_constants) {
  if (runtime::t_context.in_function) runtime::RecordHostRead();
  runtime::MakeAllReady(FlushReason::kConstRead);
  runtime::KernelScope inside;
  return TJIT_NEXT(_ZN5torch3jit27save_mobile_module_to_bytesERKNS0_6mobile6ModuleERKSt13unordered_mapINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESB_St4hashISB_ESt8equal_toISB_ESaISt4pairIKSB_SB_EEESM_RKSt6vectorIN3c106IValueESaISP_EE)(
      module, extra_files, jit_sources, jit_constants);
}

// torch::jit::save_mobile_module_to_func(...): the same
TJIT_INTERPOSED void
_ZN5torch3jit26save_mobile_module_to_funcERKNS0_6mobile6ModuleERKSt8functionIFmPKvmEE(
    const torch::jit::mobile::Module& module,
    const std::function<std::size_t(const void*, std::size_t)>& writer) {
  if (runtime::t_context.in_function) runtime::RecordHostRead();
  runtime::MakeAllReady(FlushReason::kConstRead);
  runtime::KernelScope inside;
  TJIT_NEXT(_ZN5torch3jit26save_mobile_module_to_funcERKNS0_6mobile6ModuleERKSt8functionIFmPKvmEE)
  (module, writer);
}

// caffe2::serialize::PyTorchStreamWriter::writeRecord(...)
TJIT_INTERPOSED void
_ZN6caffe29serialize19PyTorchStreamWriter11writeRecordERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEPKvmb(
    void* self, const std::string& name, const void* data, std::size_t bytes,
    bool compress) {
  if (runtime::t_context.in_function) runtime::RecordHostRead();
  runtime::MakeAllReady(FlushReason::kConstRead);
  TJIT_NEXT(_ZN6caffe29serialize19PyTorchStreamWriter11writeRecordERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEPKvmb)
  (self, name, data, bytes, compress);
}

// at::Tensor at::_ops::resolve_neg::call(const Tensor&): what libtorch_python
// calls last before it reads the bytes for Tensor.tolist(), inline.
TJIT_INTERPOSED at::Tensor _ZN2at4_ops11resolve_neg4callERKNS_6TensorE(
    const at::Tensor& tensor) {
  if (MustLook() && LiesInTorchPython(__builtin_return_address(0))) {
    ReadyToRead(tensor);
  }
  return TJIT_NEXT(_ZN2at4_ops11resolve_neg4callERKNS_6TensorE)(tensor);
}

// at::Tensor at::_ops::lift_fresh::call(const Tensor&): what libtorch_python
// calls last for torch.tensor(), which has filled it through a pointer.
TJIT_INTERPOSED at::Tensor _ZN2at4_ops10lift_fresh4callERKNS_6TensorE(
    const at::Tensor& tensor) {
  if (runtime::IsExposed(ImplOf(tensor)) &&
      LiesInTorchPython(__builtin_return_address(0))) {
    runtime::ForgetFill(tensor);
  }
  return TJIT_NEXT(_ZN2at4_ops10lift_fresh4callERKNS_6TensorE)(tensor);
}

// AOTInductor's stable interface: int32_t f(AtenTensorHandle, const void**)
TJIT_INTERPOSED std::int32_t torch_get_const_data_ptr(at::Tensor* tensor,
                                                      const void** data) {
  if (tensor != nullptr) ReadyToRead(*tensor);
  return TJIT_NEXT(torch_get_const_data_ptr)(tensor, data);
}

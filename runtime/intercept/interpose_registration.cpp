// c10::Dispatcher::registerImpl: a kernel registered while tjit is on is
// wrapped as it is registered (foreign_kernels.h). Before that, and for our own
// registrations, it is passed on as it is.
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/call/interpose.h"
#include "runtime/intercept/direct_calls.h"
#include "runtime/intercept/foreign_kernels.h"

TJIT_INTERPOSED c10::RegistrationHandleRAII
_ZN3c1010Dispatcher12registerImplENS_12OperatorNameESt8optionalINS_11DispatchKeyEENS_14KernelFunctionES2_INS_4impl12CppSignatureEESt10unique_ptrINS_14FunctionSchemaESt14default_deleteISA_EENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(
    c10::Dispatcher* self, c10::OperatorName name,
    std::optional<c10::DispatchKey> key, c10::KernelFunction kernel,
    std::optional<c10::impl::CppSignature> signature,
    std::unique_ptr<c10::FunctionSchema> schema, std::string debug) {
  // Before: no call goes around it once it is there. And after: whoever opens
  // direct calls in between has not seen it.
  std::optional<c10::OperatorName> op;
  if (name.name.starts_with("aten::")) op = name;
  if (op.has_value()) tjit::runtime::OnKernelRegistered(*op, key);
  if (key.has_value()) {
    const bool takes_symbols = kernel.isValidSymUnboxed();
    kernel = tjit::runtime::WrapLateKernel(name, *key, std::move(kernel),
                                           debug);
    if (takes_symbols && !kernel.isValidSymUnboxed()) {
      // The dispatcher takes a boxed kernel for one without SymInt: it would
      // refuse the schema here, and callers that pass integers later.
      signature.reset();
      if (schema != nullptr) {
        schema = std::make_unique<c10::FunctionSchema>(
            schema->cloneWithRealTypes(/*with_symint=*/false));
      }
    }
  }
  c10::RegistrationHandleRAII handle = TJIT_NEXT(
      _ZN3c1010Dispatcher12registerImplENS_12OperatorNameESt8optionalINS_11DispatchKeyEENS_14KernelFunctionES2_INS_4impl12CppSignatureEESt10unique_ptrINS_14FunctionSchemaESt14default_deleteISA_EENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE)(
      self, std::move(name), key, std::move(kernel), signature,
      std::move(schema), std::move(debug));
  if (op.has_value()) tjit::runtime::OnKernelRegistered(*op, key);
  return handle;
}

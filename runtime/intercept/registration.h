// Puts kernels into libtorch's dispatcher, for as long as the process lives.
//
// torch::Library::impl() does the same and parses each name, infers a schema
// from the type of each kernel, compares it with the op's and makes a text for
// messages: two thirds of what tjit's start took, for 1,900 kernels that have
// the types of the ops that they wrap. What is left is compared here, too: the
// C++ signature. See https://github.com/pytorch/pytorch, aten/src/ATen/core/
// library.cpp (Library::_impl).
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/CppSignature.h>
#include <ATen/core/operator_name.h>
#include <c10/core/DispatchKey.h>

#include <optional>
#include <utility>

namespace tjit::runtime {

struct NewKernel {
  c10::KernelFunction function;
  // None: it is a boxed one.
  std::optional<c10::impl::CppSignature> signature;
};

// A kernel that is called as `functor` is.
template <class Functor>
NewKernel UnboxedKernel(Functor functor) {
  return {c10::KernelFunction::makeFromUnboxedLambda(std::move(functor)),
          c10::impl::CppSignature::make<Functor>()};
}

// It stands in front of the op's kernels for that key. THROWS c10::Error if the
// op's kernels have another C++ signature.
void RegisterKernel(const c10::OperatorName& op, c10::DispatchKey key,
                    NewKernel kernel);

}  // namespace tjit::runtime

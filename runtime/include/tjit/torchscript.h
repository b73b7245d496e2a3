// A function of tjit::jit() as a file that Python, Netron and torch::jit::load
// open:
//
//   auto predict = tjit::jit([net](const at::Tensor& x) mutable {
//     const at::NoGradGuard no_grad;
//     return net->forward(x);
//   });
//   for (int i = 0; i < 3; ++i) predict(x);  // until it is replayed
//   tjit::save_torchscript("net.pt", predict,
//                          {.tensors = net->named_parameters().pairs()}, x);
//
// The file has the ops that are replayed for such arguments, in their order,
// and the tensors that the function takes from outside, as they are now. So it
// is what torch.jit.trace is in Python: sizes, strides and types of tensors are
// those of the example, and so is every argument that is neither a tensor nor
// a floating number; the module checks them, and its error says what it wants.
// A floating number may change where replays take it as it is passed. A tensor
// of the example that the function takes from outside as well is an argument.
//
// Threads: any. Tested by: tests/runtime/thread/save_torchscript_test.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "tjit/export.h"
#include "tjit/jit.h"

namespace tjit {

struct TorchscriptOptions {
  // Names of tensors that the function takes from outside. A dot makes a
  // submodule, as in "layer.weight". Others are called as tjit::name() says,
  // where that is such a name and no other tensor has it, else captured0 and so
  // on; what the function does not use is left out.
  std::vector<std::pair<std::string, at::Tensor>> tensors{};
  // Of the tensors and floating numbers in the arguments, in order; tensor0,
  // number0 and so on where there is none.
  std::vector<std::string> arguments{};
};

// Writes `function` as it is replayed for `args`, an example, to `path`.
//
// The module has `forward`, which checks its arguments, and `ops`. It takes
// the tensors and floating numbers in the arguments, in order, and returns the
// tensors in the result: one, a tuple of several, or None. Tensors that ask
// for gradients are its parameters, others its buffers.
//
// THROWS: c10::Error where the function is not replayed for these arguments,
// where something has no form in TorchScript (an optimizer, gradients that a
// backward pass accumulates, an op that only the program knows), which is
// named, or where the file cannot be written.
template <class F, class... Args>
void save_torchscript(const std::string& path, const Jit<F>& function,
                      const TorchscriptOptions& options, const Args&... args) {
  static_assert((!internal::HasHostState<Args> && ...),
                "tjit::save_torchscript: an optimizer has no form in "
                "TorchScript; wrap the function that predicts");
  internal::JitCall call(function.core_.get());
  call.Word(reinterpret_cast<std::uintptr_t>(
      &internal::kTypes<std::invoke_result_t<F&, const Args&...>, Args...>));
  (Fields<Args>::Visit(args, call), ...);
  call.SaveTorchscript(path, options);
}

// The same without names.
template <class F, class... Args>
void save_torchscript(const std::string& path, const Jit<F>& function,
                      const Args&... args) {
  save_torchscript(path, function, TorchscriptOptions(), args...);
}

}  // namespace tjit

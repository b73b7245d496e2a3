// Ops that go around libtorch's dispatcher.
//
// Note [Direct calls]. at::_ops::mul_Tensor::call() finds the kernel for the
// tensors' keys and the thread's, which is autograd's; that one finds that no
// gradients are asked for, excludes its keys, and calls the dispatcher again,
// which finds ours: 300 to 500 instructions, as many as ours takes to defer the
// op. The functions of direct_calls.def are interposed (interpose.h), and call
// the op's wrapper themselves where nobody can tell:
//
// - the tensors are plain ones of the CPU: they have no keys but CPU's, and
//   autograd's for it;
// - the thread has no keys of its own (modes of Python, functorch, tracing) and
//   autocast is off;
// - gradients are off for the thread, or asked for by none of the tensors, or
//   autograd is excluded, or the tensors have no key for it; and none is dual
//   (forward mode);
// - nobody observes ops (at::RecordFunction);
// - the op has libtorch's kernels, and no others at keys that such tensors may
//   get to.
//
// Where the op writes to its first argument, that one's version is counted up,
// as libtorch's kernel at ADInplaceOrView does.
//
// The wrapper is told the state of the thread that it would have found behind
// autograd's kernels, so that its ops are the same ones whichever way they
// come: traces do not know which. What runs eagerly runs in that state.
//
// Thread: any. An op is open or closed for all of them.
// Tested by: tests/runtime/intercept/direct_calls_test.cpp
#pragma once

#include <ATen/core/operator_name.h>
#include <c10/core/DispatchKey.h>

#include <optional>
#include <string>
#include <vector>

namespace tjit::runtime {

// From here on, where the conditions above hold. REQUIRES: WrapKernels().
void OpenDirectCalls();

// A kernel was registered for an op of aten at a key (none: at all
// without another). If calls of plain CPU tensors may get to it, the op goes
// through the dispatcher for good.
void OnKernelRegistered(const c10::OperatorName& op,
                        std::optional<c10::DispatchKey> key);

// All do.
void CloseAllDirectCalls();

// Tests: all do until OpenDirectCalls().
void PauseDirectCalls();

// Tests: which do.
std::vector<std::string> ClosedDirectCalls();

}  // namespace tjit::runtime

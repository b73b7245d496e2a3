// The closed table: what may read or write bytes without being a kernel of
// aten at the CPU key. Everything here gets ready inputs and teaches nothing.
//
//   every kernel at SparseCPU, SparseCsrCPU, QuantizedCPU, MkldnnCPU and
//   NestedTensorCPU          take dense tensors, or hold them inside
//   CPU kernels of other namespaces (quantized::, mkldnn::, a program's own)
//   a few composites of aten read lengths and indices themselves
//
// A foreign kernel runs as one: what it calls passes through our wrappers.
// Tensors that it took or returned are armed again afterwards. Functions on
// metadata that hand out a tensor held inside (`values`) only arm it.
//
// Kernels registered later are wrapped as they are registered, by the
// interposed Dispatcher::registerImpl; without it, by RescanLateKernels().
//
// Threads: any; registration is serialised. Nothing is ever deregistered.
// Tested by: tests/runtime/intercept/foreign_kernels_test.cpp
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/operator_name.h>
#include <c10/core/DispatchKey.h>
#include <c10/util/Exception.h>

#include <memory>
#include <string>
#include <vector>

#include "support/bail.h"

namespace tjit::runtime {

// Registers the wrappers. Once.
void InstallForeignKernels();

// Wraps what was registered since, where that went unseen. Needed only where
// registerImpl is not interposed; cheap enough for enable(), not for a step.
// REQUIRES: InstallForeignKernels().
void RescanLateKernels();

// Makes every byte of the process readable: flushes all threads and, under
// TJIT_STRESS=hide, reveals every block. No-op inside kernels.
void MakeAllReady(FlushReason reason);

// The kernel to register instead of a late `kernel` (itself where it needs no
// wrapper). `place`: where it is registered, for people.
c10::KernelFunction WrapLateKernel(const c10::OperatorName& name,
                                   c10::DispatchKey key,
                                   c10::KernelFunction kernel,
                                   const std::string& place);

// While it lives on this thread: registering over a kernel is not worth the
// dispatcher's warning, and WrapLateKernel() leaves kernels alone. Every other
// warning goes to the handler before.
class QuietOverrides : public c10::WarningHandler {
 public:
  QuietOverrides();
  ~QuietOverrides() override;
  QuietOverrides(const QuietOverrides&) = delete;
  QuietOverrides& operator=(const QuietOverrides&) = delete;

  void process(const c10::Warning& warning) override;

 private:
  c10::WarningHandler* const outer_;
};

}  // namespace tjit::runtime

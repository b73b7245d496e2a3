// Turns a recorded step into a thunk that runs it over raw pointers.
//
// Best first:
//  1. prepared: the op's TensorIterator (or gemm call, ...) is built once for
//     the exact geometry; a run patches the operand pointers and calls the
//     kernel ATen itself would call (8x8 add: 40 ns against 240 for
//     at::cpu::add_out and 390 for at::add in inference mode);
//  2. out variant: at::cpu::X_out or the original kernel of X.out over
//     executor tensors;
//  3. boxed: the original kernel as the program would have called it, its
//     results placed into the planned memory (copied where they are not).
// All three give the bits of eager: same kernels, same geometry, same memory
// format, alignment of data is 64 bytes for fresh blocks.
//
// Thread: a thunk belongs to one ThreadState and is not re-entrant.
// Tested by: tests/runtime/library_calls/library_calls_test.cpp
#pragma once

#include <ATen/core/stack.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/program/executable.h"
#include "recorder/op_record.h"
#include "runtime/call/op_entry.h"
#include "runtime/library_calls/executor_tensors.h"
#include "support/counters.h"

namespace tjit::runtime {

// A tensor of a call, by its place among the arguments or results of the step,
// and the name that the program gave it.
struct NamedTensor {
  bool is_result = false;
  std::uint32_t index = 0;
  std::string name;
};

// The arguments of one call as the program gave them, with every tensor
// replaced by an undefined one: what recording keeps of non-tensor arguments.
struct CapturedCall {
  const OpEntry* entry = nullptr;
  c10::DispatchKeySet key_set;  // of the call
  torch::jit::Stack arguments;  // in schema order
  std::shared_ptr<std::vector<NamedTensor>> names;  // by call_names.h alone
};

// Puts `tensors` (flattened in schema order: Tensor, Tensor?, Tensor[] and
// Tensor?[] arguments, undefined ones included) into a copy of the call's
// arguments. Scalars (Scalar and float arguments in schema order) are
// replaced by `scalars` unless that is null.
torch::jit::Stack FillArguments(const CapturedCall& call,
                                const std::vector<at::Tensor>& tensors,
                                const ScalarValue* scalars);

// Trials of steps of our own against libtorch's (trial.h). They
// take as long as some runs of the step, so a step that may never come again is
// prepared without at first.
struct Trials {
  bool are_allowed = true;
  bool are_wanted = false;  // set where one was not allowed
  // Of the thread whose step is prepared, which outlives it; null: none.
  Counters* counters = nullptr;
};

// A step ready to run.
class PreparedStep {
 public:
  virtual ~PreparedStep() = default;
  // slots: first byte of each slot's storage; scalars: this step's own.
  virtual void Run(char* const* slots, const ScalarValue* scalars) = 0;
  // True if Run() uses executor tensors: their slots are bound before the run.
  virtual bool uses_tensors() const { return true; }
  // True for the boxed fallback.
  virtual bool is_boxed() const { return false; }
  // Pieces of scratch that the last run would have taken, had they been lent;
  // none until that is known. Each is lent by a call before the next Run(), for
  // which it is free, aligned to 64; null takes all of them back.
  virtual std::vector<std::uint64_t> Scratch() const { return {}; }
  virtual void Lend(char* /*data*/, std::uint64_t /*bytes*/) {}
  // Whether Lend() is ever of use.
  virtual bool takes_scratch() const { return is_boxed(); }
};

// Prepares `step`. `slot_bytes[s]` is the storage size of every slot used by
// the step. Never null: falls back to PrepareBoxed.
// REQUIRES: step.kind == kDeferred.
std::unique_ptr<PreparedStep> PrepareStep(
    const StepRecord& step, const CapturedCall& call,
    const std::vector<std::uint64_t>& slot_bytes, ExecutorTensors* tensors,
    Trials* trials);

// The eager way: also what a drain uses. Counts as an eager kernel call.
std::unique_ptr<PreparedStep> PrepareBoxed(
    const StepRecord& step, const CapturedCall& call,
    const std::vector<std::uint64_t>& slot_bytes, ExecutorTensors* tensors);

}  // namespace tjit::runtime

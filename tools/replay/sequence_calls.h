// Runs the calls of a recorded sequence, as a program would make them.
//
// The storages are made anew for each run, filled, and each call goes through
// libtorch's dispatcher over tensors on them. A storage that the program had
// dropped by the end is dropped behind its last call.
//   SequenceCalls calls(sequence.runs.back());
//   calls.Begin(contents); calls.Run(); calls.Outputs();
// Thread: one at a time. Tested by: tests/acceptance/replay_command_test.py
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <tjit/sequence.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tjit::tools {

// A value that is looked at when all calls have run.
struct SequenceOutput {
  std::string what;  // "op 2 aten::mul.Tensor, result 0"
  SequenceTensor form;
  // Of a result: its call, and its number there. The form is the one that it
  // has then. Of a written argument: -1.
  std::int64_t call = -1;
  std::size_t result = 0;
};

struct SequenceValue {
  SequenceTensor form;
  std::string bytes;  // of its elements, one behind the other
};

class SequenceCalls {
 public:
  // THROWS: c10::Error if this libtorch has not one of the ops.
  explicit SequenceCalls(const SequenceRun& run);

  // Makes and fills the storages; those of the run before live on until then,
  // and with `keeps_last` until the next one. `contents` is that of each
  // storage.
  void Begin(const std::vector<at::Tensor>& contents, bool keeps_last);
  // All calls. `after`, if any, is told the number of each that has run.
  // THROWS: what a call throws.
  void Run(const std::function<void(std::size_t)>& after = {});
  // What each output is now.
  std::vector<SequenceValue> Outputs() const;
  const std::vector<SequenceOutput>& outputs() const { return outputs_; }
  // All bytes of a storage, between two calls.
  at::Tensor ContentOf(std::int64_t storage) const;

 private:
  void Call(std::size_t number);
  void KeepResults(std::size_t number, const torch::jit::Stack& stack);
  SequenceTensor FormOf(const SequenceOutput& output) const;

  const SequenceRun& run_;
  std::vector<c10::OperatorHandle> ops_;  // by call
  // Numbers stand for tensors.
  std::vector<std::vector<c10::IValue>> arguments_;
  std::vector<std::vector<std::int64_t>> dropped_;  // behind each call
  std::vector<std::vector<SequenceTensor>> made_;   // by call, in this run
  std::vector<SequenceOutput> outputs_;
  std::vector<c10::Storage> storages_, before_;
};

// The tensor of that form over a storage.
at::Tensor TensorOver(const c10::Storage& storage, const SequenceTensor& form);

// The dtype in which calls first see each storage.
std::vector<at::ScalarType> DtypesOf(const SequenceRun& run);

}  // namespace tjit::tools

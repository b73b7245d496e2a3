// Records one op call the way the runtime does, prepares it, and compares
// runs of the prepared step with the op called through the dispatcher.
//
// A call comes from a maker: Maker(seed) builds the same call (sizes, strides,
// aliasing) with other data and other scalars for each seed.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/library_calls/library_call.h"

namespace tjit::runtime::testing {

using Maker = std::function<torch::jit::Stack(int seed)>;

class RecordedCall {
 public:
  // `name` is "aten::add.Tensor". THROWS what eager throws for seed 0.
  RecordedCall(const std::string& name, Maker maker);

  // Prepared at the first use.
  PreparedStep& step();
  Trials& trials() { return trials_; }
  PreparedStep& boxed();
  const StepRecord& record() const { return record_; }

  // Runs `step` for `seed` and eager beside it. "" if every result has the
  // same bits and no argument but the written ones changed; else what differs.
  std::string Compare(PreparedStep* step, int seed);
  // The same with slot `result` in the memory of slot `operand`, which may
  // change.
  std::string CompareOver(PreparedStep* step, int seed, std::int32_t result,
                          std::int32_t operand);

  // Runs the boxed way with `record` instead. What it throws, or "".
  std::string RunBoxed(const StepRecord& record);

  // For benchmarks: runs `step` again over the memory of the last Compare().
  void RunAgain(PreparedStep* step) {
    step->Run(slots_.data(), scalars_.data());
  }

 private:
  void RecordArguments(const torch::jit::Stack& stack);
  void RecordResults(const torch::jit::Stack& results);
  // The slots of a call with the recorded geometry.
  std::vector<char*> SlotsOf(const torch::jit::Stack& stack) const;

  std::string name_;
  Maker maker_;
  OpEntry entry_;
  CapturedCall call_;
  StepRecord record_;
  std::vector<std::uint64_t> slot_bytes_;
  ExecutorTensors tensors_;
  Trials trials_;
  std::unique_ptr<PreparedStep> step_;
  std::unique_ptr<PreparedStep> boxed_;
  std::vector<char*> slots_;
  std::vector<ScalarValue> scalars_;
  torch::jit::Stack kept_;
  std::vector<std::shared_ptr<char>> memory_;
};

// The handle of "aten::add.Tensor".
c10::OperatorHandle FindOp(const std::string& name);

// Bytes of the elements in logical order.
std::string Elements(const at::Tensor& t);

}  // namespace tjit::runtime::testing

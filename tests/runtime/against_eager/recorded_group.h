// Records a stream of eager calls as one group, lowers it, interprets the
// function over the memory from before, and compares every storage with what
// eager left there: bit for bit, NaNs being equal to NaNs.
//
//   RecordedGroup group;
//   at::Tensor y = group.Call("aten::mul.Tensor", {x, w});
//   group.Call("aten::add_.Tensor", {y, b, 1});
//   EXPECT_EQ(group.Compare(), "");
//
// Math functions are eager's, called on contiguous arrays, so that what is
// compared is the lowering.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <deque>
#include <string>
#include <vector>

#include "compiler/ir/interpreter.h"
#include "compiler/lower/lower.h"

namespace tjit::testing {

class RecordedGroup {
 public:
  // The call through the dispatcher; its first result, or an undefined tensor.
  // A result that is a list: the elements are in results().
  at::Tensor Call(const std::string& op, torch::jit::Stack arguments);
  const std::vector<at::Tensor>& results() const { return results_; }

  // Every scalar of the step that was called last varies.
  void MakeScalarsRuntime();
  // That eager has, as far as lowering knows; 0: any number.
  void SetThreads(int threads) { threads_ = threads; }
  // Nobody reads the tensor's storage after the group.
  void Drop(const at::Tensor& tensor);

  // "" or why the group is not lowered.
  std::string Lower();
  const Lowered& lowered() const { return lowered_; }
  // Lowers, interprets, compares. "" or what differs.
  std::string Compare();
  // "" if the group is refused for a reason with this text in it.
  std::string ExpectRefused(const std::string& why);
  // Runs a function lowered for other sizes over this group's memory.
  std::string CompareWith(const Lowered& lowered);

 private:
  struct Slot {
    at::Tensor keeper;  // a tensor over the storage
    std::string before;
    bool is_born = false;
    bool is_needed = true;
  };
  std::int32_t SlotOf(const at::Tensor& t, bool is_born);
  void RecordArguments(const c10::FunctionSchema& schema,
                       const torch::jit::Stack& arguments, StepRecord* step);
  void RecordResults(const torch::jit::Stack& arguments, StepRecord* step);
  // Memory as it was before the group; `memory` owns it.
  ir::RunArguments ArgumentsOf(const Lowered& lowered,
                               std::vector<std::string>* memory);
  void RecordValue(const c10::IValue& value, bool is_number, bool is_written,
                   StepRecord* step);

  std::deque<StepRecord> steps_;
  std::deque<std::string> names_;
  std::vector<Slot> slots_;
  std::vector<at::Tensor> kept_, results_;
  int threads_ = 0;
  Lowered lowered_;
};

}  // namespace tjit::testing

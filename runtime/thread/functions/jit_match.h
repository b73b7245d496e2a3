// How a call of a function stands to a plan or a record of it.
//
// Nothing here changes anything: a call that nothing serves runs the function.
// Threads: any.
// Tested by: tests/runtime/thread/jit_*_test.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "runtime/thread/functions/function_calls.h"
#include "runtime/thread/functions/function_plan.h"

namespace tjit::runtime {

// From near to far.
enum class Likeness : std::uint8_t {
  kSame,
  kOtherStorages,  // the same but for storages that each call so far had
  kOtherNumbers,   // or for numbers that each call so far had
  kOther,
};

// What a call is told by. REQUIRES: the tensors that are defined are plain.
FunctionKey MakeKey(std::uint32_t context, const FunctionInputs& inputs);
Likeness Compare(const FunctionKey& known, std::uint32_t context,
                 std::uint64_t global, const FunctionInputs& inputs);
// True if each number takes the formula that was recorded.
bool NumbersFit(const FunctionPlan& plan, c10::ArrayRef<double> numbers);
// True if what the function found by itself is as it was when it was recorded.
bool HoldsCaptured(const FunctionPlan& plan, bool is_backward = false);
// True if of the arguments and the captured tensors those, and only those, ask
// for gradients that did so before the call.
bool AskForGradientsAsBefore(const FunctionPlan& plan,
                             const std::vector<at::Tensor>& arguments);
// True if no call can hold it again.
bool IsDead(const FunctionPlan& plan);
// A replay by it came to nothing. A plan of which that is so again and again
// makes room for another one.
void CountMiss(const FunctionPlan& plan);
// True if a function may be recorded with this tensor as an argument.
bool MayBeRecorded(const c10::TensorImpl* impl);
// Equal for calls that differ in numbers and storages only. Never 0.
std::uint64_t FormOf(std::uint32_t context, const FunctionInputs& inputs);
bool SameBits(double a, double b);
// True if as_strided() makes `view` of a tensor of geometry `base`: no other
// dtype.
bool IsViewOf(const TensorGeometry& base, const TensorGeometry& view);
// The same, or one of them has the parts of the other's complex numbers.
bool IsPartOf(const TensorGeometry& base, const TensorGeometry& view);

}  // namespace tjit::runtime

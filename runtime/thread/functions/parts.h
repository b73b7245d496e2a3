// Ops of a function of tjit::jit() that run at the call.
//
// Note [Parts]. Some ops cannot be deferred: a solver throws on values, others
// were marked opaque or read memory that the program holds a pointer to. In a
// function such an op is a part of its own, and what lies between two of them
// is a part of steps:
//
//   a = x * 2 + 1        steps 0, 1
//   l = cholesky(a)      part 0, behind step 1: its argument is a slot
//   y = l * w            step 2: the result of part 0 is a slot
//
// A replay runs the steps before, calls the kernel that eager would call, with
// the numbers of this call and tensors over its storages, and goes on with the
// steps behind. The thread's mutex is free meanwhile: the op may wait for other
// threads. What the op returns has the memory that the kernel gave it.
//
// The op may throw, and return tensors of other sizes than it did. Then the
// replay ends and the function runs: it meets the error itself, and may catch
// it. All ops at the call up to there are called again then. A replay that ends
// must leave nothing behind. So parts are ops of libtorch that write into no
// argument, no random numbers are drawn in a function with parts, and what
// steps before a part write into tensors from outside is copied first and put
// back, where that is little. Tensors from outside are held until the replay is
// over: while the mutex is free another thread may drop them.
//
// Thread: the owner's of the state. Tested by:
// tests/runtime/thread/jit_parts_test.cpp
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/call/call_frame.h"
#include "runtime/call/eager_call.h"
#include "runtime/thread/functions/function_calls.h"
#include "runtime/thread/functions/function_session.h"

namespace tjit::runtime {

// What FunctionCalls does with parts.
class PartCalls {
 public:
  explicit PartCalls(FunctionCalls* calls) : calls_(*calls) {}

  // A function is recorded, and its last op is no step.
  void Record(const CallFrame& frame, const ResultList& results,
              const torch::jit::Stack& boxed);
  // A record is followed. True if the call is its next part: what is pending
  // has run then.
  bool Begin(const CallFrame& frame);
  // The kernel of that call has run.
  void End(const CallFrame& frame, const ResultList& results);

  // Part `number` of a replay. False if it throws, or does not return what it
  // did. REQUIRES: no step is pending, and the owner holds the mutex.
  bool Call(FunctionReplay* replay, std::size_t number,
            const FunctionInputs& inputs) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // Binds the slots from number `from` on that stand for what parts have
  // returned so far.
  void BindCalled(const FunctionReplay& replay, std::size_t from);

 private:
  bool RecordArgument(const TensorRef& ref, PartArgument* argument);
  bool RecordResults(const ResultList& results, FunctionPart* part);
  bool IsArgument(const c10::TensorImpl* impl, const PartArgument& recorded);
  bool IsPart(const CallFrame& frame, const FunctionPart& part);

  FunctionCalls& calls_;
};

// True if the op fills a tensor without elements that the function has made, as
// at::zeros({0}) does: nothing is left to be done for it at a replay.
bool FillsNothing(const FunctionSession& session, const CallFrame& frame);

// Which result of a part has this storage.
std::optional<std::uint32_t> CalledOver(const FunctionSession& session,
                                        const c10::StorageImpl* storage);

// The recording is over: says where the parts' arguments come from. REQUIRES:
// that is known of the slots.
Refusal FindPartArguments(const FunctionSession& session,
                          FunctionRecord* record,
                          std::vector<FunctionPart>* parts);
// What the plan takes from outside lives as long as `replay`. False if some of
// it does not any more.
bool HoldOutside(const FunctionPlan& plan, const FunctionInputs& inputs,
                 FunctionReplay* replay);

// Keeps what steps of the plan write and a replay that ends puts back.
// REQUIRES: the slots of the plan are bound, and no step that writes has run.
void SaveWritten(const Run& run, FunctionReplay* replay);
// The replay ends: nothing of it is left.
void RestoreWritten(FunctionReplay* replay);

// True if both call the same op, but for numbers.
bool IsSamePart(const FunctionRecord& a, const FunctionPart& x,
                const FunctionRecord& b, const FunctionPart& y);

// The numbers of a part in a call that passes `numbers`.
std::vector<ScalarValue> PartScalars(const FunctionPlan& plan,
                                     const FunctionPart& part,
                                     c10::ArrayRef<double> numbers);

// "2 traced sequences, 1 op at the call (aten::linalg_inv_ex: may throw on
// values)"; empty: all ops are steps.
std::string PartsText(const FunctionRecord& record);

}  // namespace tjit::runtime

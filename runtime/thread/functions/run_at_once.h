// A function whose steps run when the call ends need not make them pending
// first.
//
// Note [At once]. Pending steps own the blocks that they use, so that whoever
// meets one of them runs the steps before. Where nothing can come between, the
// steps run over the blocks as they are: nobody may have one of them, and none
// is bound, owned, armed or counted as read. This is so where tjit is on for
// jit() alone, the plan is nothing but steps, and all that is to be decided of
// their segment is: whether it is compiled, and what pays. All else takes the
// way of any other replay (replay_function.cpp), which changes nothing before
// it is sure, too.
//
// The guards are those of that way: what is used lies in its storage, no two
// slots have one block, no other thread's pending ops have it, and the program
// has no raw pointer into it.
//
// Thread: the owner's of the state, outside kernels.
// Tested by: tests/runtime/thread/jit_at_once_test.cpp
#pragma once

#include "absl/base/thread_annotations.h"
#include "runtime/segment/segment_variant.h"
#include "runtime/thread/functions/function_calls.h"

namespace tjit::runtime {

class AtOnceCall {
 public:
  explicit AtOnceCall(FunctionCalls* calls) : calls_(*calls) {}
  // False, and nothing has changed: the steps have to be pending. REQUIRES: the
  // mutex of the state is held, and nothing is pending. THROWS what the state's
  // flush does, once steps have run.
  bool Try(FunctionReplay* replay,
           const FunctionInputs& inputs) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // True if no op was seen since a function that ran at once. REQUIRES: the
  // thread stands nowhere.
  bool IsBehind() const;

 private:
  bool Place(const FunctionPlan& plan, const FunctionInputs& inputs,
             Tier2Variant::Unbound* run);
  FunctionCalls::Attempt RunPlaced(
      const FunctionPlan& plan, const GlobalContext& global,
      Tier2Variant::Unbound* run) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void End(const FunctionPlan& plan, bool is_alone);

  FunctionCalls& calls_;
};

}  // namespace tjit::runtime

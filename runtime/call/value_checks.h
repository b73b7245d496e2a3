// Looks at the values that could make an op throw, before it is deferred.
//
// index, gather, nll_loss and the like throw on an index out of range. Eager
// throws at the call, so an op that may throw is deferred only if the operand
// that decides is ready and passes: then it cannot throw later, for what
// pending ops read cannot change unseen.
// Tested by: tests/runtime/call/value_checks_test.cpp
#pragma once

#include "runtime/call/call_frame.h"

namespace tjit::runtime {

// Whether, with the values as they are now, the op of `frame` neither throws
// nor warns nor decides its result's shape by them. kFail where it does, where
// that is not known, or where looking would take too long (Note [What a check
// may take]); kNotReady where pending ops are to write what decides. Looks once
// for a call, at each distinct element once; the verdict is kept in the frame.
ValueVerdict LookAtValues(CallFrame& frame);
inline bool ValuesPass(CallFrame& frame) {
  return LookAtValues(frame) == ValueVerdict::kPass;
}

}  // namespace tjit::runtime

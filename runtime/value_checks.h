// Looks at the values that could make an op throw, before it is deferred.
//
// index, gather, nll_loss and the like throw on an index out of range. Eager
// throws at the call, so an op that may throw is deferred only if the operand
// that decides is ready and passes: then it cannot throw later, for what
// pending ops read cannot change unseen.
// Tested by: tests/runtime/value_checks_test.cpp
#pragma once

#include "runtime/call_frame.h"

namespace tjit::runtime {

// True if, with the values as they are now, the op of `frame` neither throws
// nor warns nor decides its result's shape by them. False if they do, if the
// deciding operand is not ready, or if that is not known. Reads at most
// kMaxCheckedElements indices; no side effects.
bool ValuesPass(const CallFrame& frame);
inline constexpr std::int64_t kMaxCheckedElements = 1 << 20;

}  // namespace tjit::runtime

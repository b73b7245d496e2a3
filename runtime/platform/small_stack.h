// Threads whose stack is too small for what recording and replaying take of it.
//
// A program may run ops on a thread of 64 KiB. Compiled code keeps rows on the
// stack, libtorch's kernels are called from deeper down than by eager: such a
// thread takes no part, and what it needs of other threads' pending ops runs on
// a thread with a usual stack.
// Thread: any; each asks about itself.
// Tested by: tests/runtime/platform/small_stack_test.cpp
#pragma once

#include "absl/functional/function_ref.h"

namespace tjit::runtime {

// True if this thread's whole stack is smaller than kLeastStackBytes. Asks the
// system once a thread; of a thread that cannot be asked it is not.
bool HasSmallStack();
inline constexpr unsigned long kLeastStackBytes = 1000 << 10;  // rows, up to half

// Runs it on a thread of the default stack size that takes no part in recording,
// and waits. THROWS what `run` throws, std::system_error if no thread can be had.
void RunOnUsualStack(absl::FunctionRef<void()> run);

}  // namespace tjit::runtime

// The boxed wrapper: for every op that has no typed one.
#pragma once

#include "runtime/call/op_entry.h"
#include "runtime/intercept/registration.h"

namespace tjit::runtime {

// It, over the kernel of `entry`, which must live for ever.
NewKernel MakeBoxedWrapper(OpEntry* entry);

}  // namespace tjit::runtime

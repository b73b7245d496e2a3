// The boxed wrapper: for every op that has no typed one.
#pragma once

#include "runtime/op_entry.h"

namespace torch {
class Library;
}

namespace tjit::runtime {

// Registers it over the kernel of `entry`. The entry must live for ever.
void RegisterBoxed(torch::Library* library, OpEntry* entry);

}  // namespace tjit::runtime

// The list of ops that have an unboxed wrapper, filled from typed_ops.def.
#pragma once

#include <string>
#include <vector>

#include "runtime/call/op_entry.h"
#include "runtime/intercept/registration.h"

namespace tjit::runtime {

struct TypedOp {
  std::string name;  // "aten::add.Tensor"
  NewKernel (*make_wrapper)(OpEntry* entry);
};

}  // namespace tjit::runtime

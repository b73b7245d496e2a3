// The type and shape rules of ops.def as functions: what the result of an
// instruction must be. The verifier asks them, the builder follows them.
// Tested by: tests/compiler/ir/ir_verifier_test.cpp
#pragma once

#include <string>

#include "compiler/ir/ir.h"

namespace tjit::ir {

struct DTypeVerdict {
  std::string error;      // empty: the operands are right
  bool is_given = false;  // the rule leaves the result open
  DType dtype = DType::kF32;
};
// REQUIRES: operands have the kinds that ops.def lists and name values.
DTypeVerdict ResultDType(const Function& function, const Instruction& in);

struct SizesVerdict {
  std::string error;
  bool is_given = false;
  Sizes sizes;
};
// REQUIRES: as above, and the dims are in order.
SizesVerdict ResultSizes(const Function& function, const Instruction& in);

// Empty if `dims` and `keepdim` suit the op, else what is wrong.
std::string CheckDims(const Instruction& in);

// Empty if number and kinds of the operands are those of ops.def.
std::string CheckOperandKinds(const Instruction& in);

}  // namespace tjit::ir

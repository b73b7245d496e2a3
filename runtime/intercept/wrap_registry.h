// The list of ops that have an unboxed wrapper, filled by typed_ops_*.cpp.
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

// One for each typed_ops_*.cpp.
void AddLinear1Ops(std::vector<TypedOp>* ops);
void AddLinear2Ops(std::vector<TypedOp>* ops);
void AddLinear3Ops(std::vector<TypedOp>* ops);
void AddLinear4Ops(std::vector<TypedOp>* ops);
void AddLinear5Ops(std::vector<TypedOp>* ops);
void AddLinear6Ops(std::vector<TypedOp>* ops);
void AddNn1Ops(std::vector<TypedOp>* ops);
void AddNn2Ops(std::vector<TypedOp>* ops);
void AddNn3Ops(std::vector<TypedOp>* ops);
void AddNn4Ops(std::vector<TypedOp>* ops);
void AddNn5Ops(std::vector<TypedOp>* ops);
void AddNn6Ops(std::vector<TypedOp>* ops);
void AddNn7Ops(std::vector<TypedOp>* ops);
void AddPointwise1Ops(std::vector<TypedOp>* ops);
void AddPointwise2Ops(std::vector<TypedOp>* ops);
void AddPointwise3Ops(std::vector<TypedOp>* ops);
void AddPointwise4Ops(std::vector<TypedOp>* ops);
void AddPointwise5Ops(std::vector<TypedOp>* ops);
void AddPointwise6Ops(std::vector<TypedOp>* ops);
void AddPointwise7Ops(std::vector<TypedOp>* ops);
void AddSpecial1Ops(std::vector<TypedOp>* ops);

}  // namespace tjit::runtime

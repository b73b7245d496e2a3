// Builds a function instruction by instruction; the rules of ops.def give the
// types of the results.
//
//   Builder b("f", 1);                          // one symbol, n0
//   ValueId x = b.External(DType::kF32, Size::Symbol(0) * 8);
//   ValueId y = b.Emit(Op::kExp, {b.View(x, {Size::Symbol(0), 8})});
//   b.Return(y);
//   Function f = b.Finish();
//
// REQUIRES everywhere: what is built is right; Verify() says what is not.
// Tested by: tests/compiler/ir/ir_builder_test.cpp
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/ir.h"

namespace tjit::ir {

class Builder {
 public:
  explicit Builder(std::string name, int symbols = 0) {
    f_.name = std::move(name);
    f_.symbols = symbols;
  }

  // REQUIRES: nothing has been emitted.
  ValueId External(DType dtype, Size elements);
  Scalar ScalarArgument(ScalarType type);

  // Operands: the value as it lies; its memory from the start, row-major, with
  // other sizes; any access; a scalar.
  Operand Use(ValueId id) const { return Whole(f_, id); }
  Operand View(ValueId id, Sizes sizes) const;
  Operand View(ValueId id, Geometry access) const;
  static Operand Use(const Scalar& scalar);
  // Every element of `operand` as often as `sizes` say: dims are added in
  // front, dims of constant size 1 get stride 0. REQUIRES: the others agree.
  static Operand Broadcast(Operand operand, const Sizes& sizes);

  // An op whose rules give the type of the result.
  ValueId Emit(Op op, std::vector<Operand> operands, std::vector<int> dims = {},
               bool keepdim = false);
  // full, to, and where() of scalars: the type is given.
  ValueId EmitAs(Value type, Op op, std::vector<Operand> operands);
  // Results: the fresh ones, then the new contents of written operands.
  std::vector<ValueId> Call(std::string callee, std::int64_t step,
                            std::vector<Value> fresh,
                            std::vector<Operand> operands);

  void Write(Operand to, Operand from) {
    f_.writes.push_back({std::move(to), std::move(from)});
  }
  void Return(ValueId id) { f_.returns.push_back(id); }

  const Function& function() const { return f_; }
  Function Finish() { return std::move(f_); }

 private:
  ValueId Define(Value value);

  Function f_;
};

}  // namespace tjit::ir

#include "compiler/ir/builder.h"

#include "compiler/ir/rules.h"
#include "support/assert.h"

namespace tjit::ir {

ValueId Builder::Define(Value value) {
  f_.values.push_back(std::move(value));
  return static_cast<ValueId>(f_.values.size()) - 1;
}

ValueId Builder::External(DType dtype, Size elements) {
  TJIT_ASSERT(f_.body.empty());
  ++f_.externals;
  return Define({dtype, Contiguous({std::move(elements)})});
}

Scalar Builder::ScalarArgument(ScalarType type) {
  Scalar scalar;
  scalar.type = type;
  scalar.argument = static_cast<std::int32_t>(f_.scalars.size());
  f_.scalars.push_back(type);
  return scalar;
}

Operand Builder::View(ValueId id, Sizes sizes) const {
  return View(id, Contiguous(std::move(sizes)));
}

Operand Builder::View(ValueId id, Geometry access) const {
  Operand operand;
  operand.value = id;
  operand.access = std::move(access);
  return operand;
}

Operand Builder::Use(const Scalar& scalar) {
  Operand operand;
  operand.scalar = scalar;
  return operand;
}

Operand Builder::Broadcast(Operand operand, const Sizes& sizes) {
  const Geometry old = std::move(operand.access);
  const std::size_t added = sizes.size() - old.sizes.size();
  operand.access = Geometry();
  operand.access.offset = old.offset;
  operand.access.sizes = sizes;
  operand.access.strides.assign(sizes.size(), Size(0));
  for (std::size_t d = 0; d < old.sizes.size(); ++d) {
    if (old.sizes[d] == Size(1) && sizes[added + d] != Size(1)) continue;
    operand.access.sizes[added + d] = old.sizes[d];
    operand.access.strides[added + d] = old.strides[d];
  }
  return operand;
}

ValueId Builder::Emit(Op op, std::vector<Operand> operands,
                      std::vector<int> dims, bool keepdim) {
  Instruction in;
  in.op = op;
  in.operands = std::move(operands);
  in.dims = std::move(dims);
  in.keepdim = keepdim;
  Value value;
  value.dtype = ResultDType(f_, in).dtype;
  value.layout = op == Op::kUpdate ? Use(in.operands[0].value).access
                                   : Contiguous(ResultSizes(f_, in).sizes);
  const ValueId id = Define(std::move(value));
  in.results = {id};
  f_.body.push_back(std::move(in));
  return id;
}

ValueId Builder::EmitAs(Value type, Op op, std::vector<Operand> operands) {
  Instruction in;
  in.op = op;
  in.operands = std::move(operands);
  const ValueId id = Define(std::move(type));
  in.results = {id};
  f_.body.push_back(std::move(in));
  return id;
}

std::vector<ValueId> Builder::Call(std::string callee, std::int64_t step,
                                   std::vector<Value> fresh,
                                   std::vector<Operand> operands) {
  Instruction in;
  in.op = Op::kCall;
  in.callee = std::move(callee);
  in.step = step;
  in.operands = std::move(operands);
  for (Value& value : fresh) in.results.push_back(Define(std::move(value)));
  for (const Operand& operand : in.operands) {
    if (!operand.written) continue;
    Value same = f_.values[static_cast<std::size_t>(operand.value)];
    in.results.push_back(Define(std::move(same)));
  }
  std::vector<ValueId> results = in.results;
  f_.body.push_back(std::move(in));
  return results;
}

}  // namespace tjit::ir

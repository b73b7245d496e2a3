#include "compiler/passes/rewriter.h"

namespace tjit {

using ir::ValueId;

Rewriter::Rewriter(const ir::Function& old)
    : old_(old), map_(old.values.size(), ir::kNoValue), types_(old.values) {
  new_.name = old.name;
  new_.symbols = old.symbols;
  new_.externals = old.externals;
  new_.scalars = old.scalars;
  for (ValueId id = 0; id < old.externals; ++id) {
    new_.values.push_back(old.values[static_cast<std::size_t>(id)]);
    Replace(id, id);
  }
}

ir::Instruction Rewriter::Mapped(const ir::Instruction& in) const {
  ir::Instruction mapped = in;
  for (ir::Operand& operand : mapped.operands) operand = Map(operand);
  return mapped;
}

void Rewriter::Emit(ir::Instruction in) {
  for (ValueId& id : in.results) {
    const ValueId old = id;
    id = static_cast<ValueId>(new_.values.size());
    new_.values.push_back(types_[static_cast<std::size_t>(old)]);
    Replace(old, id);
  }
  new_.body.push_back(std::move(in));
}

ValueId Rewriter::EmitFresh(ir::Instruction in, ir::Value type) {
  const auto id = static_cast<ValueId>(new_.values.size());
  new_.values.push_back(std::move(type));
  in.results = {id};
  new_.body.push_back(std::move(in));
  return id;
}

ir::Function Rewriter::Finish() {
  std::vector<ir::WriteBack> writes = old_.writes;
  for (ir::WriteBack& write : writes) {
    write.to = Map(write.to);
    write.from = Map(write.from);
  }
  std::vector<ValueId> returns = old_.returns;
  for (ValueId& id : returns) id = Map(id);
  return FinishWith(std::move(writes), std::move(returns));
}

ir::Function Rewriter::FinishWith(std::vector<ir::WriteBack> writes,
                                  std::vector<ValueId> returns) {
  new_.writes = std::move(writes);
  new_.returns = std::move(returns);
  return std::move(new_);
}

std::vector<int> Definitions(const ir::Function& function) {
  std::vector<int> definitions(function.values.size(), -1);
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    for (const ValueId id : function.body[i].results) {
      definitions[static_cast<std::size_t>(id)] = static_cast<int>(i);
    }
  }
  return definitions;
}

bool IsWhole(const ir::Function& function, const ir::Operand& operand) {
  return operand.is_tensor() &&
         operand.access ==
             function.values[static_cast<std::size_t>(operand.value)].layout;
}

}  // namespace tjit

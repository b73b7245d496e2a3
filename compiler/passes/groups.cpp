#include "compiler/passes/groups.h"

#include <numeric>

#include "compiler/passes/loop_kinds.h"
#include "compiler/passes/rewriter.h"

namespace tjit {

using ir::Instruction;

Groups::Groups(const ir::Function& function)
    : f_(function),
      definitions_(Definitions(function)),
      group_(function.body.size()) {
  std::iota(group_.begin(), group_.end(), 0);
  for (std::size_t i = 0; i < f_.body.size(); ++i) {
    const Instruction& in = f_.body[i];
    for (std::size_t k = 0; k < in.operands.size(); ++k) {
      const ir::Operand& operand = in.operands[k];
      if (!operand.is_tensor()) continue;
      const bool is_base = in.op == ir::Op::kUpdate && k == 0;
      if (is_base || operand.written) bases_.push_back(operand.value);
      const int maker = MakerOf(operand.value);
      if (maker < 0 || !HasDims(in) || !IsHandedOver(maker, in, k)) continue;
      group_[static_cast<std::size_t>(Find(maker))] = Find(static_cast<int>(i));
    }
  }
}

// Element by element, or of a row (Note [Rows] in form_loops.h).
bool Groups::IsHandedOver(int maker, const Instruction& in,
                          std::size_t operand) const {
  const Instruction& made = f_.body[static_cast<std::size_t>(maker)];
  if (IsAlongRows(made)) return LoopSizesOf(f_, in) == LoopSizesOf(f_, made);
  const LoopKind kind = LoopKindOf(made);
  return (kind == LoopKind::kPointwise || kind == LoopKind::kSlabs) &&
         TakesRegister(f_, in, operand);
}

int Groups::Find(int i) {
  while (group_[static_cast<std::size_t>(i)] != i) {
    int& group = group_[static_cast<std::size_t>(i)];
    group = group_[static_cast<std::size_t>(group)];  // halves the way
    i = group;
  }
  return i;
}

bool Groups::HasDims(const Instruction& in) {
  return in.op != ir::Op::kCall && in.op != ir::Op::kUpdate;
}

int Groups::MakerOf(ir::ValueId value) const {
  const int i = definitions_[static_cast<std::size_t>(value)];
  return i >= 0 && HasDims(f_.body[static_cast<std::size_t>(i)]) ? i : -1;
}

}  // namespace tjit

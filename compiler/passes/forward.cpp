#include "compiler/passes/forward.h"

#include <algorithm>
#include <utility>

#include "compiler/passes/access_facts.h"
#include "compiler/passes/rewriter.h"

namespace tjit {
namespace {

using ir::Instruction;
using ir::Op;
using ir::Operand;

const Instruction* DefinitionOf(const ir::Function& f,
                                const std::vector<int>& definitions,
                                const Operand& operand) {
  const int i = definitions[static_cast<std::size_t>(operand.value)];
  return i < 0 ? nullptr : &f.body[static_cast<std::size_t>(i)];
}

bool ThroughCopy(const ir::Function& f, const Instruction& copy,
                 Operand* operand) {
  const Operand& from = copy.operands[0];
  const ir::Value& value = f.values[static_cast<std::size_t>(operand->value)];
  if (f.values[static_cast<std::size_t>(from.value)].dtype != value.dtype) {
    return false;
  }
  if (operand->access == value.layout) {
    *operand = from;
    return true;
  }
  if (from.access.strides != value.layout.strides) return false;
  operand->value = from.value;
  operand->access.offset = operand->access.offset + from.access.offset;
  return true;
}

bool ThroughUpdate(const Instruction& update, Operand* operand) {
  const Operand& base = update.operands[0];
  if (operand->access == base.access && IsInjective(base.access)) {
    *operand = update.operands[1];
    return true;
  }
  if (!AreDisjoint(operand->access, base.access)) return false;
  operand->value = base.value;
  return true;
}

}  // namespace

Operand Forward(const ir::Function& function,
                const std::vector<int>& definitions, Operand operand) {
  for (;;) {
    const Instruction* in = DefinitionOf(function, definitions, operand);
    const bool is_through =
        in != nullptr &&
        ((in->op == Op::kTo && ThroughCopy(function, *in, &operand)) ||
         (in->op == Op::kUpdate && ThroughUpdate(*in, &operand)));
    if (!is_through) return operand;
  }
}

std::vector<ir::WriteBack> ForwardWrite(const ir::Function& function,
                                        const std::vector<int>& definitions,
                                        const ir::WriteBack& write,
                                        bool is_first) {
  std::vector<ir::WriteBack> parts;
  Operand from = write.from;
  bool is_own = is_first && IsWhole(function, write.to);
  while (is_own && from.value != write.to.value) {
    const Instruction* in = DefinitionOf(function, definitions, from);
    is_own = in != nullptr && in->op == Op::kUpdate && IsWhole(function, from);
    if (!is_own) break;
    Operand to = in->operands[0];
    from.value = to.value;  // lies as the result does
    to.value = write.to.value;
    parts.push_back({to, Forward(function, definitions, in->operands[1])});
  }
  if (!is_own || !IsWhole(function, from)) {
    return {{write.to, Forward(function, definitions, write.from)}};
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace tjit

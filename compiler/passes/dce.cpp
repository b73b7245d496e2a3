#include "compiler/passes/dce.h"

#include <utility>
#include <vector>

#include "compiler/passes/rewriter.h"
#include "support/planted_defect.h"

namespace tjit {
namespace {

using ir::Operand;

// A later write-back of the same elements wins: all reads come before.
bool IsReplaced(const ir::Function& f, std::size_t write) {
  for (std::size_t later = write + 1; later < f.writes.size(); ++later) {
    if (f.writes[later].to == f.writes[write].to) return true;
    if (Planted(Defect::kDeadWriteBack) &&
        f.writes[later].to.value == f.writes[write].to.value) {
      return true;
    }
  }
  return false;
}

// An external's own content, before anything else was written to it.
bool IsNoChange(const ir::Function& f, std::size_t write) {
  if (f.writes[write].to != f.writes[write].from) return false;
  for (std::size_t i = 0; i < write; ++i) {
    if (f.writes[i].to.value == f.writes[write].to.value) return false;
  }
  return true;
}

}  // namespace

ir::Function EliminateDead(const ir::Function& function) {
  std::vector<char> is_read(function.values.size(), 0);
  const auto read = [&](const Operand& operand) {
    if (operand.is_tensor()) {
      is_read[static_cast<std::size_t>(operand.value)] = 1;
    }
  };
  std::vector<std::size_t> writes;
  for (std::size_t i = 0; i < function.writes.size(); ++i) {
    if (IsReplaced(function, i) || IsNoChange(function, i)) continue;
    read(function.writes[i].from);
    writes.push_back(i);
  }
  for (const ir::ValueId id : function.returns) {
    is_read[static_cast<std::size_t>(id)] = 1;
  }
  std::vector<char> is_needed(function.body.size(), 0);
  for (std::size_t i = function.body.size(); i-- > 0;) {
    const ir::Instruction& in = function.body[i];
    bool needed = in.op == ir::Op::kCall;
    for (const ir::ValueId id : in.results) {
      needed |= is_read[static_cast<std::size_t>(id)] != 0;
    }
    if (!needed) continue;
    is_needed[i] = 1;
    for (const Operand& operand : in.operands) read(operand);
  }
  Rewriter r(function);
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    if (is_needed[i] != 0) r.Keep(function.body[i]);
  }
  std::vector<ir::WriteBack> kept;
  for (const std::size_t i : writes) {
    kept.push_back(
        {r.Map(function.writes[i].to), r.Map(function.writes[i].from)});
  }
  std::vector<ir::ValueId> returns;
  for (const ir::ValueId id : function.returns) returns.push_back(r.Map(id));
  return r.FinishWith(std::move(kept), std::move(returns));
}

}  // namespace tjit

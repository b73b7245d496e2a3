// Copies a function instruction by instruction, with changes: what every pass
// is made of. Values are numbered anew, without gaps.
//
//   Rewriter r(f);
//   for (const Instruction& in : f.body) {
//     if (useless) r.Replace(in.results[0], r.Map(other)); else r.Keep(in);
//   }
//   return r.Finish();
//
// "Old" values are those of the function it copies, "new" ones those of the
// copy. Part of the passes; tested with them.
#pragma once

#include <utility>
#include <vector>

#include "compiler/ir/ir.h"

namespace tjit {

class Rewriter {
 public:
  // Takes over externals, scalars, symbols and name.
  explicit Rewriter(const ir::Function& old);

  // The new value of an old one; kNoValue if it was dropped.
  ir::ValueId Map(ir::ValueId old) const {
    return map_[static_cast<std::size_t>(old)];
  }
  ir::Operand Map(ir::Operand operand) const {
    if (operand.is_tensor()) operand.value = Map(operand.value);
    return operand;
  }
  // The instruction with mapped operands; its results are the old ones.
  ir::Instruction Mapped(const ir::Instruction& in) const;

  void Keep(const ir::Instruction& old) { Emit(Mapped(old)); }
  // Appends an instruction with new operands; its results are the old values
  // that it defines, which keep their types.
  void Emit(ir::Instruction in);
  // Appends one with a result that no old instruction had. Returns that.
  ir::ValueId EmitFresh(ir::Instruction in, ir::Value type);
  // From now on old value `from` is new value `to`, which lies as it does.
  void Replace(ir::ValueId from, ir::ValueId to) {
    map_[static_cast<std::size_t>(from)] = to;
  }
  // The type of an old value changes. REQUIRES: it is not emitted yet.
  void Retype(ir::ValueId old, ir::Value type) {
    types_[static_cast<std::size_t>(old)] = std::move(type);
  }

  const ir::Function& function() const { return new_; }
  // Write-backs and returns of the old function are mapped and appended.
  ir::Function Finish();
  // Without them: the caller has written his own.
  ir::Function FinishWith(std::vector<ir::WriteBack> writes,
                          std::vector<ir::ValueId> returns);

 private:
  const ir::Function& old_;
  ir::Function new_;
  std::vector<ir::ValueId> map_;  // by old value
  std::vector<ir::Value> types_;  // by old value
};

// The instruction that defines each value, by value; -1 for externals.
std::vector<int> Definitions(const ir::Function& function);

// The operand reads all of its value, in the order in which it lies.
bool IsWhole(const ir::Function& function, const ir::Operand& operand);

}  // namespace tjit

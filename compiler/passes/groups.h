// Instructions that must iterate alike: those that hand over elements in
// registers (TakesRegister, loop_kinds.h). What changes the dims of one, changes
// those of its group.
// Part of order_dims.h and simplify_access.h; tested with them.
#pragma once

#include <vector>

#include "compiler/ir/ir.h"

namespace tjit {

class Groups {
 public:
  explicit Groups(const ir::Function& function);

  // Index of an instruction that stands for the group of instruction `i`.
  int Find(int i);
  // Calls and updates have no dims of their own.
  static bool HasDims(const ir::Instruction& in);
  // The instruction that makes a value; -1 without dims, or of an external.
  int MakerOf(ir::ValueId value) const;
  // Values with a type that other instructions rely on: what calls and updates
  // replace parts of.
  const std::vector<ir::ValueId>& bases() const { return bases_; }

 private:
  bool IsHandedOver(int maker, const ir::Instruction& in,
                    std::size_t operand) const;

  const ir::Function& f_;
  const std::vector<int> definitions_;
  std::vector<int> group_;  // by instruction: union-find
  std::vector<ir::ValueId> bases_;
};

}  // namespace tjit

// Values made of parts: updates that, together, replace every element.
//
//   %3 = full f32[4] 0
//   %4 = update f32[4] %3[2], %1          %4 alone: not all elements
//   %5 = update f32[4] %4[2]+2, %2        %5 is %1 and %2, nothing of %3
//
// Lowering writes cat and roll like this; a `full` of which parts are replaced
// (a padded tensor) is one too, its first part being all of it. No one needs
// what lies between: FormLoops() lets the loops that make the parts store them
// right into the memory of the concat.
// Tested by: tests/compiler/loops/form_loops_test.cpp (random functions),
// tests/filetests/ir/loops_concat.ir
#pragma once

#include <vector>

#include "compiler/ir/ir.h"

namespace tjit {

// In the order of the updates: disjoint and injective, and they cover the
// value; or, behind `fill`, disjoint.
struct ConcatParts {
  int fill = -1;           // instruction: a `full` that is stored first
  std::vector<int> parts;  // instructions: updates
  bool is_concat() const { return !parts.empty(); }
};

struct Concats {
  // By value.
  std::vector<ConcatParts> of;
  // By instruction: nobody needs its value but, as a base, an update whose
  // result is a concat: it runs in no loop. Concats themselves do not either.
  std::vector<char> is_skipped;
};

Concats FindConcats(const ir::Function& function);

// The update replaces elements with those of a value as it lies, which a loop
// computes: CopyOut() sees to that for all parts.
bool IsOwnPart(const ir::Function& function, const ir::Instruction& update);

}  // namespace tjit

// Replaces an instruction by one that costs less and has the same bits: x * 1,
// neg(neg(x)), where(c, a, a), casts there and back. Readers of copies read
// what was copied, readers of an update what it replaced or left alone, and a
// write-back of an updated external writes the parts only.
//
// Stands behind fold, which makes the constants that it looks for, and before
// cse, for which it makes equal operands equal. The rules hold for every bit of
// every input but for which NaN a NaN is: x + 0 is not x (x may be -0), x + -0
// is; x - x is not 0.
// Tested by: tests/compiler/passes/passes_test.cpp,
// tests/filetests/ir/pass_peephole*.ir
// Source: Cranelift's simplify rules (egraph "opts"), LLVM InstSimplify without
// fast-math flags.
#pragma once

#include "compiler/ir/ir.h"

namespace tjit {

ir::Function Peephole(const ir::Function& function);

}  // namespace tjit

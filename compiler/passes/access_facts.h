// What can be proved of accesses, for all values of the symbols: symbols are
// not negative. "No" means: not proved.
// Tested by: tests/compiler/passes/access_facts_test.cpp
#pragma once

#include "compiler/ir/ir.h"

namespace tjit {

// The size is >= 0.
bool IsNeverNegative(const ir::Size& size);

// No two elements lie in the same place.
bool IsInjective(const ir::Geometry& access);

// No element of one is an element of the other, in the same memory.
bool AreDisjoint(const ir::Geometry& a, const ir::Geometry& b);

}  // namespace tjit

// Drops the instructions that nobody reads, and write-backs that a later one
// replaces.
//
// Stands last of the passes over instructions: the others leave behind what
// they have replaced. Calls stay, whoever reads them.
// Tested by: tests/compiler/passes/passes_test.cpp,
// tests/filetests/ir/pass_dce.ir
// Source: mark and sweep over SSA; Cytron et al., "Efficiently Computing Static
// Single Assignment Form", 1991, 7.1, without control flow.
#pragma once

#include "compiler/ir/ir.h"

namespace tjit {

ir::Function EliminateDead(const ir::Function& function);

}  // namespace tjit

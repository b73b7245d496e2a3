#include "compiler/driver/kernel.h"

#include "compiler/ir/ir_text.h"

namespace tjit {

std::string TextOf(const ir::Function& function) { return ir::Print(function); }

}  // namespace tjit

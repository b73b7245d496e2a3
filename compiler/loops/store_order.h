// Whether the stores of a plan come in an order that keeps what the function
// says: rule 7 of verify_loops.h, and 8 for stores.
// Tested by: tests/compiler/loops/form_loops_test.cpp
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/ir.h"
#include "compiler/loops/form_loops.h"

namespace tjit {

// What a loop does to a memory.
struct LoopTouch {
  int loop;
  std::int32_t memory;
  ir::Geometry to;
  ir::ValueId value;
};

struct StoreFault {
  int loop;
  int rule;
  std::string what;
};

// `stores`: in the order in which they run. `store_of`: by write-back of the
// function, index into them; -1: none.
std::vector<StoreFault> CheckStoreOrder(const LoopPlan& plan,
                                        const std::vector<LoopTouch>& stores,
                                        const std::vector<int>& store_of);

}  // namespace tjit

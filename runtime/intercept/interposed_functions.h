// The list of interposed functions (interposed.def) at run time.
// Tested by: tests/runtime/intercept/interpose_test.cpp
#pragma once

#include <string>

namespace tjit::runtime {

// "150 of 150 interposed functions are active", and the names of those that are
// not. For diagnostics; takes about a millisecond.
std::string ActiveInterposers();
// True if all are.
bool InterpositionIsComplete();

}  // namespace tjit::runtime

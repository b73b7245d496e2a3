// tjit explain FILE
//
// Prints what a file of TJIT_STATS says about a run: recorder/explanation.h.
// Tested by: tests/acceptance/explain_test.py
#pragma once

namespace tjit::tools {

// `arguments` are those after the word "explain". Returns the exit status: 2
// for a wrong command line or a file that is not one of TJIT_STATS.
int ExplainCommand(int count, char** arguments);

}  // namespace tjit::tools

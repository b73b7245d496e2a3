// tjit graph [options] FILE
//
// Prints the functions of a file of TJIT_DUMP, or of one of the compiler's IR,
// as text, DOT or SVG: compiler/inspect/graph.h.
// Tested by: tests/acceptance/dump_test.py
#pragma once

namespace tjit::tools {

// `arguments` are those after the word "graph". Returns the exit status: 2 for
// a wrong command line or a file without a function.
int GraphCommand(int count, char** arguments);

}  // namespace tjit::tools

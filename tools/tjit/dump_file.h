// Reads a file of TJIT_DUMP from the disk.
// Tested by: tests/acceptance/dump_test.py, report_test.py
#pragma once

#include <string>
#include <vector>

#include "compiler/inspect/dump_reader.h"

namespace tjit::tools {

// The functions of the file, or of standard input if `path` is "-". Returns ""
// or what is wrong.
std::string ReadDumpedFunctions(const std::string& path,
                                std::vector<DumpedFunction>* functions);

}  // namespace tjit::tools

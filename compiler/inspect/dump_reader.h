// Reads the functions of a file of TJIT_DUMP (segment_dump.h), or of a file of
// IR (ir/ir_text.h), for `tjit graph`.
// Tested by: tests/compiler/inspect/graph_test.cpp
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/ir.h"

namespace tjit {

struct DumpedFunction {
  std::string title;  // "segment 1 group 2 pass fold"; empty: no dump
  // What the lines `; name %0 = s3` say: "%0", "return 0", "n0" and "$0".
  std::map<std::string, std::string> names;
  ir::Function function;

  std::string NameOf(const std::string& what) const;  // "" if it has none
};

// A text with headings gives all functions below them, whatever else there is;
// one without must be one function. Says "line:column: what" in *error and
// returns false if that does not parse, or there is no function at all.
bool ReadFunctions(std::string_view text,
                   std::vector<DumpedFunction>* functions, std::string* error);

}  // namespace tjit

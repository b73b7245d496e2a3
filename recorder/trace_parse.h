// Parses the text of trace_text.h back into steps and slots.
//
// ToText(ParseTrace(text)) == text for every text that ToText() wrote. What
// the text does not show comes back as its default: the class of a guarded
// scalar, version counters, the item size of dtypes without a name.
// Tested by: tests/recorder/trace_parse_test.cpp, tests/filetests/trace/
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/trace_node.h"

namespace tjit {

struct ParsedTrace {
  bool has_header = false;  // the line "trace 3 ops=2 ..."
  std::uint32_t id = 0;
  std::uint64_t key_hash = 0;
  bool starts_at_boundary = false;
  std::vector<StepRecord> steps;
  std::vector<SlotRecord> slots;
  std::vector<std::string> names;  // of slots; "": it has none

  std::vector<const StepRecord*> records() const;
};

// With the header line, if there was one.
std::string ToText(const ParsedTrace& trace);

// Syntax only: VerifyPath() knows the rest. Says "line:column: what" in *error
// and returns false if the text is no trace. Interns the names of its ops.
bool ParseTrace(std::string_view text, ParsedTrace* trace, std::string* error);

}  // namespace tjit

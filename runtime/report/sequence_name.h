// What a sequence is called in the instruction log and by `tjit explain`: the
// same in every run of the program.
// Thread: any. Tested by: tests/acceptance/log_test.py,
// tests/acceptance/repro_test.py
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_format.h"
#include "recorder/trace_node.h"

namespace tjit::runtime {

inline std::string SequenceName(const Trace& trace) {
  return absl::StrFormat("%012x",
                         trace.key.hash & ((std::uint64_t{1} << 48) - 1));
}

}  // namespace tjit::runtime

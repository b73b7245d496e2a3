// What two runs must have in common to be one trace.
//
// The key of a path: op schemas, dataflow over slots, overlap relation, dtype,
// ndim, layout, key set, context, static arguments, scalar types, value
// classes and guarded scalar bits; no sizes but zero-size and the broadcast
// relation between the operands of one step.
// Tested by: tests/recorder/trace_key_test.cpp
#pragma once

#include <cstdint>
#include <vector>

#include "recorder/op_record.h"

namespace tjit {

// Compared in full; the hash only finds it.
struct TraceKey {
  std::vector<std::uint64_t> words;
  std::uint64_t hash = 0;
  bool operator==(const TraceKey& o) const {
    return hash == o.hash && words == o.words;
  }
};

// REQUIRES: slots are numbered by first use.
TraceKey MakeTraceKey(const std::vector<const StepRecord*>& steps);

}  // namespace tjit

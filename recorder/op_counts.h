// How often each op did something: one number per OpId.
//
// Written by the owning thread only, read by any.
// Tested by: tests/acceptance/explain_test.py
#pragma once

#include <memory>

#include "recorder/schema_key.h"
#include "support/counters.h"

namespace tjit {

class OpCounts {
 public:
  // libtorch has some 3,500 ops; those beyond are counted as kNoOp.
  static constexpr OpId kMaxOps = 8192;

  void Add(OpId op) { counts_[op < kMaxOps ? op : kNoOp].Add(); }
  std::int64_t value(OpId op) const { return counts_[op].value(); }

 private:
  std::unique_ptr<Counter[]> counts_ = std::make_unique<Counter[]>(kMaxOps);
};

}  // namespace tjit

// Looks at the values that could make an op throw, before it is deferred.
//
// index, gather, nll_loss and the like throw on an index out of range. Eager
// throws at the call, so an op that may throw is deferred only if the operand
// that decides is ready and passes: then it cannot throw later, for what
// pending ops read cannot change unseen.
// Tested by: tests/runtime/call/value_checks_test.cpp
#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>

#include "recorder/tensor_meta.h"
#include "runtime/call/call_frame.h"

namespace tjit::runtime {

// Integers that pass: those from `low` to below `high`, and maybe one more.
struct IndexRange {
  std::int64_t low, high;
  bool has_another = false;
  std::int64_t another = 0;

  bool operator==(const IndexRange& o) const = default;
  bool Has(std::int64_t index) const {
    return (index >= low && index < high) || (has_another && index == another);
  }
};

// A tensor of integers that an op indexes by: it throws unless all pass.
struct IndexUse {
  const c10::TensorImpl* index;
  IndexRange allowed;
  double op_ns;  // what the op takes at least
};
using IndexUses = c10::SmallVector<IndexUse, 4>;

// Those of the op of `frame`. False if that is not known.
bool FindIndexUses(const CallFrame& frame, IndexUses* uses);
// True if all integers of a tensor pass; `storage` is what its offset counts
// from. REQUIRES: nothing that is pending writes them.
bool IndicesPass(const TensorGeometry& index, const char* storage,
                 const IndexRange& allowed);

// Whether, with the values as they are now, the op of `frame` neither throws
// nor warns nor decides its result's shape by them. kFail where it does, where
// that is not known, or where looking would take too long (Note [What a check
// may take]); kNotReady where pending ops are to write what decides. Looks once
// for a call, at each distinct element once; the verdict is kept in the frame.
ValueVerdict LookAtValues(CallFrame& frame);
inline bool ValuesPass(CallFrame& frame) {
  return LookAtValues(frame) == ValueVerdict::kPass;
}

}  // namespace tjit::runtime

// Tensors of integers that were looked at before: whether all of them are in a
// range (value_checks.h).
//
// A list of neighbours, the edges of a graph: such an index is made once and
// read by many ops in many steps. To look at it each time takes part of what
// replaying the ops saves. So a verdict is kept as long as nothing can have
// changed the integers since:
// - Ops that are deferred, functions that are replayed and kernels forget what
//   is known of the blocks that they write (Block::ForgetContent()).
// - All else needs a mutable pointer. To hand one out, libtorch clears the hook
//   of the storage, and who sets it again forgets as well (ArmStorage(); new
//   blocks have nothing to forget). So a verdict holds only while the hook is
//   there.
// There are none of memory that the program has a raw pointer into, that was
// there before tjit, or that modes of checking hide.
//
// Thread: any. Tested by: tests/runtime/call/index_verdicts_test.cpp
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "runtime/call/value_checks.h"

namespace tjit::runtime {

// Which integers of a storage are to be in which range.
struct IndexQuestion {
  const c10::StorageImpl* storage;
  std::int64_t offset;  // elements
  // Of the distinct ones: no stride is 0.
  c10::IntArrayRef sizes, strides;
  c10::ScalarType dtype;
  IndexRange allowed;
};

// True if they are: it is known, or was found by `look`. That is called where
// verdicts are mostly asked for again. THROWS: what `look` throws.
bool AllKnownInRange(const IndexQuestion& question,
                     absl::FunctionRef<bool()> look);

}  // namespace tjit::runtime
